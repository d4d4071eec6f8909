"""Runs while an image is built, on its own Python: patches the engine that is installed there."""

import hashlib
import importlib.util
import pathlib
import sys

ENGINE = ""
PATCHES: list = []  # type: ignore[type-arg]


def has(root: pathlib.Path, evidence: dict[str, str]) -> bool:
    path = root / evidence["file"]
    return path.is_file() and evidence["text"] in path.read_text(encoding="utf-8")


def main() -> None:
    spec = importlib.util.find_spec(ENGINE)
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"there is no {ENGINE} in this image")
    root = pathlib.Path(spec.submodule_search_locations[0]).parent
    contents: dict[pathlib.Path, str] = {}
    for patch in PATCHES:
        name = patch["id"]
        if any(has(root, evidence) for evidence in patch["fixed_by"]):
            print(f"{name}: not needed, the engine has its own fix")
            continue
        if not all(has(root, evidence) for evidence in patch["precondition"]):
            print(f"{name}: not needed, the code it is for is not there")
            continue
        for edit in patch["edits"]:
            path = root / edit["file"]
            if not path.is_file():
                sys.exit(f"{name}: there is no {path}")
            text = contents.get(path)
            if text is None:
                text = path.read_text(encoding="utf-8")
            count = text.count(edit["find"])
            if count != 1:
                sys.exit(f"{name}: the text to replace occurs {count} times in {path}, not once")
            contents[path] = text.replace(edit["find"], edit["replace"])
        print(f"{name}: applies")
    for path, text in contents.items():
        compile(text, str(path), "exec")
    for path, text in contents.items():
        before = hashlib.sha256(path.read_bytes()).hexdigest()
        path.write_text(text, encoding="utf-8")
        for stale in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            stale.unlink()
        after = hashlib.sha256(path.read_bytes()).hexdigest()
        print(f"{path}: {before} -> {after}")


if __name__ == "__main__":
    main()
