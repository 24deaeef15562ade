"""tsc accepts the emitted constants as settings of the reference client; the client passes its tests in Node."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from targets_real import POLICIES, document, hedging, run, system, write

pytestmark = pytest.mark.real

CLIENT = Path(__file__).parents[2] / "clients" / "typescript"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the client with the installed TypeScript beside it."""
    modules = system("HEDGECTL_NODE_MODULES")
    copy = tmp_path / "client"
    shutil.copytree(CLIENT, copy, ignore=shutil.ignore_patterns("node_modules", "dist"))
    (copy / "node_modules").symlink_to(modules)
    return copy


def tsc(project: Path) -> None:
    done = run(project / "node_modules" / ".bin" / "tsc", "-p", ".", cwd=project)
    assert done.returncode == 0, done.stdout + done.stderr


def test_constants_are_settings_of_the_client(project: Path) -> None:
    uses = []
    for name in sorted(POLICIES):
        write(POLICIES[name], "typescript", project / "src" / f"policy_{name}.ts")
        uses.append(f'import {{ hedgePolicy as {name} }} from "./policy_{name}.js";')
    uses.append('import { Hedger } from "./hedge.js";')
    uses += [f"new Hedger({name});" for name in sorted(POLICIES)]
    (project / "src" / "use.ts").write_text("\n".join(uses) + "\n", encoding="utf-8")
    tsc(project)
    done = run("node", "dist/use.js", cwd=project)
    assert done.returncode == 0, done.stderr


def test_tsc_notices_constants_that_are_no_settings(project: Path) -> None:
    path = write(document(hedging()), "typescript", project / "src" / "policy.ts")
    path.write_text(
        path.read_text(encoding="utf-8").replace("hedgeAfterMs: 300", 'hedgeAfterMs: "300"'), encoding="utf-8"
    )
    (project / "src" / "use.ts").write_text(
        'import { hedgePolicy } from "./policy.js";\nimport { Hedger } from "./hedge.js";\nnew Hedger(hedgePolicy);\n',
        encoding="utf-8",
    )
    assert run(project / "node_modules" / ".bin" / "tsc", "-p", ".", cwd=project).returncode != 0


def test_the_reference_client_passes_its_tests(project: Path) -> None:
    tsc(project)
    done = run("node", "--test", "test/hedge.test.mjs", cwd=project)
    assert done.returncode == 0, done.stdout
    assert "# fail 0" in done.stdout
