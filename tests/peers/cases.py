#!/usr/bin/env python3
"""Checks the tool on the small inputs of $NACRE_SHARED/cases: cases.py NACRE

A case is `as the source`, `refused` in one sentence with the exit code that it should have, or, where what it needs is not
built yet, either of them. Prints `CLAIM cases ...`; without the folder it is skipped.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

nacre = str(pathlib.Path(sys.argv[1]).resolve())
shared = pathlib.Path(os.environ.get('NACRE_SHARED') or '../shared').resolve() / 'cases'
reports, files, damaged = shared / 'reports', shared / 'files', shared / 'damaged'
if not shared.is_dir():
    print('SKIP cases: the inputs are in ../shared/cases (NACRE_SHARED)')
    sys.exit(77)
wrong = []
counts = {'as the source': 0, 'refused': 0}


class Run:
    def __init__(self, *arguments):
        begun = time.monotonic()
        done = subprocess.run([nacre, *map(str, arguments)], capture_output=True, text=True, timeout=120)
        self.code, self.out, self.err, self.seconds = done.returncode, done.stdout, done.stderr, time.monotonic() - begun

    def refused(self, code=None, word=''):
        """One clear refusal: a non-zero exit that is no crash, a sentence that begins with the tool's name."""
        sentence = next((line for line in self.err.splitlines() if line.startswith('nacre: ')), '')
        return self.code in ((code,) if code else (1, 2, 3, 4)) and bool(sentence) and word in self.err


def case(name, kind, holds, said=''):
    if holds:
        counts[kind] += 1
    else:
        wrong.append(f'{name}: {said}'.strip())


def outputs(model, **inputs):
    """Returns the outputs of a run on these arrays, by name; {} if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        given = []
        for name, array in inputs.items():
            path = f'{folder}/{len(given)}.npy'
            np.save(path, array)
            given += ['--input', f'{name}={path}']
        done = Run('run', model, *given, '--output', f'{folder}/out')
        if done.code != 0:
            return {}
        return {path.stem: np.load(path) for path in pathlib.Path(f'{folder}/out').glob('*.npy')}


def tune(network, data, output, epochs, *options):
    return Run('tune', network, '--data', data / 'x.npy', '--labels', data / 'y.npy', '--no-shuffle', '--batch', 16, '--epochs', epochs, '-o', output,
               *options)


def trained_as_keras(folder, name, epochs=2):
    """Compares a tuned network with Keras's. Bound: 8 steps, each with some hundred roundings by 2^-23, times 8 for slope."""
    expected = np.load(folder / f'{name}_expected.npz')
    with tempfile.TemporaryDirectory() as work:
        done = tune(folder / f'{name}.keras', folder, f'{work}/tuned.nacre', epochs)
        got = list(outputs(f'{work}/tuned.nacre', x=expected['input']).values()) if done.code == 0 else []
        want = expected['keras_after']
        bound = 8 * 8 * 100 * 2.0**-23 * max(1.0, float(np.abs(want).max()))
        differs = float(np.abs(got[0] - want).max()) if len(got) == 1 and got[0].shape == want.shape else np.inf
        case(f'{folder.name}/{name}', 'as the source', differs <= bound, f'differs by {differs} of {bound}: {done.err}')


with tempfile.TemporaryDirectory() as work:
    # Dropout: all epochs, a model, and inference that is the same each time.
    folder = reports / '01-tune-dropout'
    for network, more in (('dropout.keras', ()), ('dropout.onnx', ('--loss', 'softmax_cross_entropy'))):
        model = f'{work}/{network}.nacre'
        done = tune(folder / network, folder, model, 2, *more)
        x = np.load(folder / 'dropout_expected.npz')['input']
        first, second = (list(outputs(model, x=x).values()) for _ in range(2))
        case(network, 'as the source', done.code == 0 and len(first) == 1 and np.array_equal(first[0], second[0]), done.err)

    # Frozen variables, settings of losses, layers that draw random numbers, recurrent layers.
    for name in ('frozen_layer', 'frozen_base'):
        trained_as_keras(reports / '02-trainable-false', name)
    for name in ('ignore_class', 'reduction_sum'):
        trained_as_keras(reports / '04-loss-settings', name)
    for name, word in (('gaussian_noise', 'GaussianNoise'), ('lstm_dropout', 'dropout')):
        folder = reports / '06-noise-layers-off'
        done = tune(folder / f'{name}.keras', folder, f'{work}/noise.nacre', 1)
        case(name, 'refused', done.refused(4, word) and '--ignore-setting' in done.err and not os.path.exists(f'{work}/noise.nacre'), done.err)
    for name, bytes_of_parameters in (('lstm_mask_last', 880), ('simplernn_nomask_seq', 400)):  # 220 and 100 in the files
        Run('convert', reports / '18-recurrent-training' / f'{name}.keras', '-o', f'{work}/{name}.nacre', '--train', 'softmax_cross_entropy', '--optimizer', 'sgd')
        size = Run('size', f'{work}/{name}.nacre', '--train', '--json')
        case(name, 'as the source', f'"parameters": {bytes_of_parameters},' in size.out, size.out + size.err)

    # A training that diverges: exit 1, no model.
    folder = reports / '09-diverged-exit-0'
    done = Run('tune', folder / 'net.onnx', '--data', folder / 'x.npy', '--labels', folder / 'y.npy', '--loss', 'softmax_cross_entropy', '--lr', '1e20', '--epochs', 2,
               '--batch', 16, '-o', f'{work}/diverged.nacre')
    case('09-diverged', 'refused', done.refused(1, '--lr') and not os.path.exists(f'{work}/diverged.nacre'), done.err)

    # Two outputs: the option names the one that the loss reads.
    heads = Run('convert', files / 'two_heads.onnx', '-o', f'{work}/heads.nacre', '--train', 'softmax_cross_entropy')
    case('two_heads', 'refused', heads.refused(word='--train-output'), heads.err)
    for head, loss, trained in (('cls', 'softmax_cross_entropy', 67), ('box', 'squared_error', 76)):
        heads = Run('convert', files / 'two_heads.onnx', '-o', f'{work}/{head}.nacre', '--train', loss, '--train-output', head)
        size = Run('size', f'{work}/{head}.nacre', '--train', '--json')
        case(f'two_heads {head}', 'as the source', f'"parameters": {4 * trained},' in size.out, heads.err + size.err)

    # No additions are reordered.
    Run('convert', files / 'round_by_adding.onnx', '-o', f'{work}/round.nacre')
    facts = Run('inspect', f'{work}/round.nacre', '--json')
    given = json.loads(facts.out)['programs'][0]['inputs'][0]
    x = np.random.default_rng(1).normal(size=given['shape']).astype(np.float32)
    rounded = np.ravel(list(outputs(f'{work}/round.nacre', **{given['name']: x}).values())[0])
    case('round_by_adding', 'as the source', np.array_equal(rounded, np.rint(rounded)), str(rounded))

    # A conversion names what it does not do, with the bytes: these layers stay in float32.
    subprocess.run([sys.executable, files / 'mk_dqlstm.py'], cwd=work, capture_output=True, check=False)
    for network in pathlib.Path(work).glob('lstm_dynamic*.onnx'):
        done = Run('convert', network, '-o', f'{work}/lstm.nacre')
        case('mk_dqlstm', 'as the source', done.code == 0 and 'float32' in done.out + done.err and 'bytes' in done.out + done.err, done.out + done.err)

    # Damaged files: a sentence with the place, exit 3, and soon.
    for name in ('k1_size_frac.keras', 'k1_units_1e30.keras', 'lstm_initial_c_wrong_shape.onnx'):
        done = Run('convert', damaged / name, '-o', f'{work}/damaged.nacre')
        case(name, 'refused', done.refused(3) and not os.path.exists(f'{work}/damaged.nacre'), f'{done.code} {done.err}')
    done = Run('convert', damaged / 'many_steps.onnx', '-o', f'{work}/damaged.nacre')
    case('many_steps.onnx', 'refused', done.refused() and done.seconds < 1.5, f'{done.seconds:.1f} s {done.err}')

    # Files of what is not built yet are refused in a sentence, or right; a crash is neither.
    for network in sorted([*files.glob('*.onnx'), *files.glob('*.tflite'), *reports.glob('*/*.tflite'), *reports.glob('*/*.onnx')]):
        done = Run('convert', network, '-o', f'{work}/later.nacre')
        case(network.name, 'refused' if done.code else 'as the source', done.code == 0 or done.refused(), f'{done.code} {done.err}')

result = f"{counts['as the source']} cases as the source has them, {counts['refused']} refused in a sentence"
if wrong:
    print('\n'.join(wrong))
    print(f'CLAIM cases NOT SHOWN: {result}; wrong: {len(wrong)}')
    sys.exit(1)
print(f'CLAIM cases shown: {result}')
