# SPDX-License-Identifier: Apache-2.0
"""The fixtures of test/e2e, and what they say of a test that failed. pytest looks for those of a conftest.py in its own folder alone."""
import importlib.util
import os

SPEC = importlib.util.spec_from_file_location("e2e_conftest", os.path.join(os.path.dirname(__file__), "../e2e/conftest.py"))
E2E = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(E2E)
globals().update({name: value for name, value in vars(E2E).items() if name.startswith(("fixture_", "pytest_"))})
