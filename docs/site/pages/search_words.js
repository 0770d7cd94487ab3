// A question, as the search of the theme can answer it. The theme finds each text that has a word which begins as one of the question does.
// So "to" would find "tool" and "total", and "kernels" would not find "kernel". Here small words leave the question, endings leave its words,
// a number or a single letter counts as it is, and AllocateTensors is two words, as the index has it (separator in mkdocs.yml).
// A question that is a name of the reference, as nacre_program_bind or Program::bind, asks for titles that have all words of the name.
"use strict";
(() => {
  const small = new Set(
    ("a able about across after all almost also am among an and any are as at be because been before but by can cannot could dear did do does " +
    "either else ever every for from get got had has have he her hers him his how however i if in into is it its just least let like likely may " +
    "me might most must my neither no nor not of off often on only or other our own rather said say says she should since so some than that the " +
    "their them then there these they this to too us wants was we were what when where which while who whom why will with would yet you your").split(" "));

  const shorter = (word) => {
    const stem = word.replace(/(ations?|ings?|edly|ied|ies|ed|ers?|es|e|(?<!s)s)$/, "").replace(/([bdglmnprt])\1$/, "$1");
    return stem.length > 3 ? stem : word;
  };
  const asked = (word) => {
    if (/^(\w|\d+)$/.test(word)) return word + "^1";
    return /^[a-z]+$/.test(word) ? shorter(word) : word;
  };
  const names = new Set();
  const plain = (name) => name.toLowerCase().replace(/\(.*\)$/, "").replace(/^nacre(::|\.)/, "");
  const collect = (docs) => {
    for (const { location, title } of docs) {
      if (!/(\.h|python_reference)\.html#/.test(location)) continue;
      title.replace(/<[^>]*>/g, "").split(/[\s,]+/).forEach((name) => names.add(plain(name)));
    }
  };
  const words = (question) => {
    const name = question.trim();
    if (/^\w[\w:.]*(\(.*\))?$/.test(name) && /[_:.]|[a-z][A-Z]/.test(name) && names.has(plain(name))) {
      const parts = name.replace(/\(.*/, "").split(/[_:.]+|(?<=[a-z])(?=[A-Z])/).map((part) => part.toLowerCase());
      return parts.filter((part) => part && !small.has(part)).map((part) => `+title:${part}^1`).join(" ");
    }
    if (/["*^~]|(^|\s)[+-]/.test(question)) return question;  // the reader knows the search's own signs
    const all = question.replace(/([a-z])(?=[A-Z])/g, "$1 ").toLowerCase().split(/[\s_,;!?()/]+/).filter(Boolean);
    const large = all.filter((word) => !small.has(word));
    return (large.length ? large : all).map(asked).join(" ");
  };

  const SETUP = 0, QUERY = 2;  // the theme's numbers of these messages to its worker
  const post = Worker.prototype.postMessage;
  Worker.prototype.postMessage = function (message, ...others) {
    if (message && message.type === SETUP && message.data && message.data.docs) collect(message.data.docs);
    const query = message && message.type === QUERY && typeof message.data === "string";
    return post.call(this, query ? { ...message, data: words(message.data) } : message, ...others);
  };
})();
