import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

/**
 * What reads the decorator metadata that a compiler emits: SWC and tsc differ in it. Of the demo,
 * its tools and what its routes take.
 */
const METADATA =
  /^(libs\/(core\/test\/(tools|schema)|resources\/test)|test\/(nest|docs|examples))\/|^test\/demo\/(access|chat|client|entities|policies|carts|orders|tickets)\./u;

/** The compiler reads the pages in both runs, and says the same. */
const SAME_IN_BOTH = /^test\/docs\/fences\.spec\.js$/u;

/**
 * What an ordinary `npm test` leaves out or shortens: long specs, suites on a server, most cases of
 * a property.
 */
const LEFT_OUT_NAME = /\.(long|release|postgres|mariadb)\.(e2e-)?spec\.js$/u;
const LEFT_OUT_CODE = /\b(describePostgres|describeMariaDb|onEachDatabase|cases)\(/u;

const SPEC = /\.(e2e-)?spec\.js$/u;
const RELATIVE_IMPORT = /\bfrom '(\.{1,2}\/[^']+\.js)'/gu;

/**
 * Lists the specs below `root` that show something on the output of `tsc` that `npm test` has not
 * shown on the sources. `docs/decisions/tests.md` says why the others are left to
 * `npm run check:release`.
 */
export function builtSpecs(root) {
  const sources = new Map();
  const source = (file) => {
    if (!sources.has(file)) sources.set(file, readFileSync(file, 'utf8'));
    return sources.get(file);
  };
  // A spec shares its cases by importing a file of the tests; the sources of a package decide
  // nothing here.
  const isLeftOut = (file, seen = new Set()) => {
    if (seen.has(file)) return false;
    seen.add(file);
    if (LEFT_OUT_CODE.test(source(file).replaceAll(/^export (async )?function .*$/gmu, '')))
      return true;
    return [...source(file).matchAll(RELATIVE_IMPORT)]
      .map(([, path]) => join(dirname(file), path))
      .filter((path) => relative(root, path).split('/').includes('test') && existsSync(path))
      .some((path) => isLeftOut(path, seen));
  };
  return specsBelow(root).filter(
    (path) => METADATA.test(path) || LEFT_OUT_NAME.test(path) || isLeftOut(join(root, path)),
  );
}

/**
 * Lists the others, which read no metadata and are tried whole on the sources: they show what a
 * compiler does to a line that is wrong in one of them alone.
 */
export function otherSpecs(root) {
  const shown = new Set(builtSpecs(root));
  return specsBelow(root).filter((path) => !shown.has(path));
}

function specsBelow(root) {
  return readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((path) => SPEC.test(path) && !path.includes('node_modules') && !SAME_IN_BOTH.test(path))
    .sort();
}
