"""Keeps machine code in numba's cache, and loads it without what only compiling needs.

Before numba loads kept code, it imports the implementations of all of Python and NumPy that it can compile, SciPy's
linear algebra for them where SciPy is installed, and compiles functions of its own: a third of a second and 50 MB in
every process. Beside the code it keeps the *environments* of all functions that were inlined into it, which import the
same modules, and which machine code without Python objects never reads. With the code it keeps LLVM's form of it, from
which it can be inlined into other functions; numba reads that of every function, which takes longer than all the rest.

None of this is done here: the code finds the functions of numba's runtime by their names, is kept without environments,
and LLVM's form of a function is read when a function that calls it is compiled. numba loads the rest by itself then.
This is known of the versions ``LIGHT_VERSIONS``; with another one everything is as numba does it. A checksum of both
forms is kept with them: damage is noticed when the code is loaded, and not when it is run or a caller is compiled.

Where several processes start at once and nothing is kept yet, one compiles a function and the others wait for its code:
all would take the same seconds of as many cores.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from importlib import import_module
from typing import Any

import llvmlite.binding
import xxhash
from numba import __version__ as numba_version
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import compile_result

from stream_dedup.core.table_store import table_store

LIGHT_VERSIONS = ("0.68.",)
"""Beginnings of the versions of numba that this was run with."""


class _LightResult(CompileResultCacheImpl):
    """What is kept of a compiled function."""

    def reduce(self, cres: Any) -> tuple[Any, ...]:  # noqa: ANN401 - numba's types are untyped
        """Return it with a checksum in place of its annotated source, without the environments of inlined functions."""
        kept: tuple[Any, ...] = super().reduce(cres)  # type: ignore[no-untyped-call]
        return (*kept[:-3], _checksum(*kept[0][2]), kept[-2], ()) if is_light() else kept

    def rebuild(self, target_context: Any, payload: tuple[Any, ...]) -> Any:  # noqa: ANN401
        """Return the compiled function, of which only machine code has been read.

        Raises:
            ValueError: the code is not what was kept.
        """
        if not is_light():
            return super().rebuild(target_context, payload)  # type: ignore[no-untyped-call]
        (name, _, (code, bitcode)), described, environment, signature, *_, checksum, _, _ = payload
        if checksum != _checksum(code, bitcode):
            msg = f"the kept code of {name} is damaged"
            raise ValueError(msg)
        library = _KeptLibrary(target_context.codegen(), name, code, bitcode)
        library.declare(described.llvm_func_name, described.llvm_cpython_wrapper_name)
        entry_point = target_context.get_executable(library, described, environment)
        return compile_result(  # type: ignore[no-untyped-call]
            target_context=target_context,
            typing_context=target_context.typing_context,
            library=library,
            environment=environment,
            entry_point=entry_point,
            fndesc=described,
            signature=signature,
            objectmode=False,
        )


def _checksum(code: bytes, bitcode: bytes) -> int:
    return xxhash.xxh3_64_intdigest(code) ^ xxhash.xxh3_64_intdigest(bitcode, seed=1)


class _KeptLibrary(JITCodeLibrary):
    """Machine code that was kept; LLVM's form of it is read when it is to be inlined."""

    def __init__(self, codegen: Any, name: str, code: bytes, bitcode: bytes) -> None:  # noqa: ANN401
        super().__init__(codegen, name)  # type: ignore[no-untyped-call]
        self._bitcode = bitcode
        self.enable_object_caching()  # type: ignore[no-untyped-call]
        self._set_compiled_object(code)  # type: ignore[no-untyped-call]
        self._finalize_final_module()  # type: ignore[no-untyped-call]

    def declare(self, *names: str) -> None:
        """Let numba look up these functions, which the machine code has."""
        self._codegen._engine._defined_symbols.update(names)  # noqa: SLF001

    def _get_module_for_linking(self) -> Any:  # noqa: ANN401
        if self._shared_module is None:
            self._shared_module = llvmlite.binding.parse_bitcode(self._bitcode)
        return self._shared_module


class KeptCode(FunctionCache):
    """The kept code of one function."""

    _impl_class = _LightResult

    def __init__(self, function: Callable[..., Any]) -> None:
        """Find the folder; raises what numba does if there is none."""
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._file = function.__code__.co_filename
        self.turn = ExitStack()
        """Holds off other processes while this one compiles the function; closed when the code is kept."""
        self._has_turn = False

    def load_overload(self, sig: Any, target_context: Any) -> Any:  # noqa: ANN401
        """Return the compiled function if its code is kept, else None: it is this process's turn to compile it."""
        found, store = self._loaded(sig, target_context), table_store()
        # Once: a function that cannot be compiled is tried again, and would wait for itself.
        if found is None and store is not None and not self._has_turn:
            self._has_turn = True
            self.turn.enter_context(store.alone(self._file))
            found = self._loaded(sig, target_context)
            if found is None:
                store.note_compiling(self.cache_path)
        return found

    def _loaded(self, sig: Any, target_context: Any) -> Any:  # noqa: ANN401
        if not is_light():
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        _name_runtime()
        return self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]


def is_light() -> bool:
    """Return whether private parts of this version of numba may be relied on."""
    return bool(numba_version.startswith(LIGHT_VERSIONS))


@cache
def _name_runtime() -> None:
    """Let machine code find the functions of numba's runtime, which counts references to arrays."""
    runtime: Any = import_module("numba.core.runtime._nrt_python")
    for name, address in runtime.c_helpers.items():
        llvmlite.binding.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)
