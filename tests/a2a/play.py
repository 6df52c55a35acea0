"""Plays cases, and reports them as the suite reads them."""

import time
import traceback


def play(cases, words):
    """Plays the named cases whose names contain one of the words, or all; returns the exit status."""
    count = 0
    failed = []
    for name, case in cases:
        if words and not any(word in name for word in words):
            continue
        count += 1
        began = time.monotonic()
        problem = None
        try:
            case()
        except Exception:
            failed.append(name)
            problem = traceback.format_exc()
        seconds = time.monotonic() - began
        print(f"        {'FAIL' if problem else 'PASS'} [{seconds:8.3f}s] {name}", flush=True)
        if problem:
            print(f"a2a '{name}' panicked at:", problem, sep="\n  ", flush=True)
    print(f"test result: {'FAILED' if failed else 'ok'}. {count - len(failed)} passed; {len(failed)} failed")
    return 1 if failed else 0
