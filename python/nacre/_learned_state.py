"""What a training has learned: as arrays, as checkpoints and as a model. These are methods of nacre.Trainer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Unpack

import numpy as np

from . import _checked, _commands, _files
from ._calls import Calls
from ._infos import TensorInfo
from ._keywords import ExportOptions
from ._model import Model
from ._native import Trainer as NativeTrainer
from ._tensors import Array, fitted, view


class LearnedState:
    """A base of nacre.Trainer."""

    model: Model
    _native: NativeTrainer
    _calls: Calls
    _state: list[tuple[TensorInfo, int, bool]]  # each with its tensor in the model, and whether it is trained

    def state_dict(self) -> dict[str, Array]:
        """Returns all that training has learned, by name.

        Returns
        -------
        dict of str to ndarray
            Copies of the parameters, the optimizer's moments, running statistics, and counters.

        Examples
        --------
        >>> import nacre
        >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy", optimizer="adam")
        >>> nacre.Trainer(model).state_dict()["fc.weight"].shape
        (10, 128)
        """
        with self._calls:
            return {info.name: np.array(view(self._native.state_tensor(i), info)) for info, i, _ in self._state}

    def parameters(self) -> dict[str, Array]:
        """Returns the trained parameters alone, by name.

        Returns
        -------
        dict of str to ndarray
            Copies of the numbers that steps change by gradients.

        Examples
        --------
        >>> import nacre
        >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy", train_last=1)
        >>> sorted(nacre.Trainer(model).parameters())
        ['fc.bias', 'fc.weight']
        """
        with self._calls:
            return {
                info.name: np.array(view(self._native.state_tensor(i), info))
                for info, i, trains in self._state
                if trains
            }

    def load_state_dict(self, state: Mapping[str, object], *, strict: bool = True) -> None:
        """Loads values that `state_dict` or `parameters` returned.

        Parameters
        ----------
        state : mapping of str to array
            Values by name, with the types and shapes of the trainer's own.
        strict : bool, default: True
            Whether all names must be there. If false, values without a name in `state` stay.

        Raises
        ------
        TypeError
            `state` is no mapping, or a value has another type. Nothing changes.
        ValueError
            A name is unknown, or missing with `strict`, or a value has another shape. Nothing changes.

        Examples
        --------
        >>> import nacre
        >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy")
        >>> one, two = nacre.Trainer(model), nacre.Trainer(model)
        >>> two.load_state_dict(one.state_dict())
        >>> two.load_state_dict({"fc.bias": one.parameters()["fc.bias"]}, strict=False)
        """
        if not isinstance(state, Mapping):
            raise TypeError(f"a state is a dict of arrays by name, not {type(state).__name__}")
        known = {info.name: (info, i) for info, i, _ in self._state}
        unknown = [str(name) for name in state if name not in known]
        missing = [name for name in known if name not in state] if strict else []
        if unknown or missing:
            raise ValueError(f"unknown: {', '.join(unknown) or 'none'}; missing: {', '.join(missing) or 'none'}")
        arrays = {name: fitted(value, known[name][0]) for name, value in state.items()}
        with self._calls:
            places = {name: view(self._native.state_tensor(known[name][1]), known[name][0]) for name in arrays}
            for name, array in arrays.items():
                if array.shape != places[name].shape:
                    raise ValueError(f"{name} has the shape {list(places[name].shape)}, not {list(array.shape)}")
            for name, array in arrays.items():
                places[name][...] = array
            self._native.restored()

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Saves a checkpoint, as `nacre tune --checkpoint` and a device do.

        Parameters
        ----------
        directory : str or path-like
            Directory of the checkpoint. It is made if it is not there.

        Raises
        ------
        Error
            The checkpoint cannot be written (`exit_code` 5).
        TypeError
            `directory` is no path.
        ValueError
            `directory` is empty or has a null character.

        Notes
        -----
        Two slots are written in turn. A loss of power at any byte leaves the checkpoint before, or this one.

        Examples
        --------
        >>> import os
        >>> import nacre
        >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy")
        >>> nacre.Trainer(model).save("checkpoint")
        >>> sorted(os.listdir("checkpoint"))
        ['slot0.checkpoint', 'slot1.checkpoint']
        """
        with self._calls:
            self._native.save(_checked.path(directory))

    def load(self, directory: str | os.PathLike[str], *, any_training: bool = False) -> dict[str, Any]:
        """Loads the newest checkpoint of a directory, also one of `nacre tune`.

        Parameters
        ----------
        directory : str or path-like
            Directory of the checkpoint.
        any_training : bool, default: False
            Whether a checkpoint of another training is loaded too, as far as name, type and size of its tensors match.

        Returns
        -------
        dict
            "taken" counts the tensors that took the checkpoint's values, and "kept" the others. "file" is the slot,
            "where" the place in a training of `nacre tune` ("epoch 3"), else "". "same_model" tells whether this very
            model file saved it. "warnings" has the sentences that are warned of.

        Raises
        ------
        Error
            There is no checkpoint, or it is another training's. Nothing changes.
        TypeError
            `directory` is no path.
        ValueError
            `directory` is empty or has a null character.

        Warns
        -----
        Warning
            A slot is not whole. The other slot, which may be older, is loaded.

        Examples
        --------
        >>> import nacre
        >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy")
        >>> trainer = nacre.Trainer(model)
        >>> trainer.save("checkpoint")
        >>> loaded = trainer.load("checkpoint")
        >>> loaded["same_model"], loaded["kept"]
        (True, 0)
        """
        with self._calls:
            loaded: dict[str, Any] = self._native.load(_checked.path(directory), bool(any_training))
        for sentence in loaded["warnings"]:
            _commands.warn(sentence)
        return loaded

    @_commands.documented("ExportOptions")
    def export(self, **options: Unpack[ExportOptions]) -> Model:
        """Returns the trained network as a model for inference, as `nacre export` writes it.

        Parameters
        ----------
        **options
            Options of `nacre export` by keyword. Without any, the model gives the outputs of `infer`, to the bit. With
            `network` that network is compiled anew: batch norms are folded, adapters merged, and any policy is
            possible.

        Returns
        -------
        Model
            A model without programs that train.

        Raises
        ------
        Error
            A learned number is not finite, or an option is refused.
        TypeError
            There is no option of this name.

        Examples
        --------
        >>> import nacre
        >>> model = nacre.convert("tools/samples/digits.onnx", train="softmax_cross_entropy")
        >>> trainer = nacre.Trainer(model)
        >>> trainer.export().trains
        False
        >>> trainer.export(network="tools/samples/digits.onnx", policy="float16").layers[1].policy
        'float16'
        """
        if not options:
            with self._calls:
                return Model(self._native.tuned_model(), self.model.name)
        with _files.Folder() as folder:
            made, checkpoint = folder.path("tuned.nacre"), folder.path("checkpoint")
            self.save(checkpoint)
            source = folder.write(self.model.name, self.model.to_bytes())
            given: dict[str, object] = dict(options)
            if given.get("network") is not None:
                given["network"] = folder.network(given["network"])
            own = {"checkpoint": checkpoint, "output": made}
            _commands.run_json("export", [source], given, folder, own=own, without=("keras", "onnx", "best"))
            with open(made, "rb") as file:
                return Model(file.read(), self.model.name)
