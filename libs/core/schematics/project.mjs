// What the schematics know of a project: `files` reads and writes texts by their paths, in a tree
// of Angular's or in a folder.
import { readdirSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';

const OLDEST_NEST = 12;
const TEMPLATES = new URL('files/', import.meta.url);

/** The version of this package, which its siblings share. */
export const version = JSON.parse(
  readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
).version;

/** Reads the manifest of a project. Fails where there is none, and where its Nest is too old. */
export function manifestIn(files) {
  const text = files.read('package.json');
  if (text === undefined)
    throw new Error(
      'There is no package.json here: run the command in the folder of a Nest application.',
    );
  const manifest = JSON.parse(text);
  const installed = files.read('node_modules/@nestjs/core/package.json');
  const nest = installed ? JSON.parse(installed).version : manifest.dependencies?.['@nestjs/core'];
  if (nest === undefined)
    throw new Error(
      'This is no Nest application: its package.json has no @nestjs/core among its dependencies.',
    );
  const major = Number(/\d+/.exec(nest)?.[0] ?? OLDEST_NEST);
  if (major < OLDEST_NEST)
    throw new Error(
      `Toolloop needs NestJS ${OLDEST_NEST} or newer, and this project has ${nest}. Install @nestjs/cli@${OLDEST_NEST} and @nestjs/schematics@${OLDEST_NEST} (npm wants --force for it), and run "npx nest upgrade" first.`,
    );
  return manifest;
}

/** The extension that relative imports have here. */
export function extensionFor(manifest) {
  return manifest.type === 'module' ? '.js' : '';
}

/** The path by which a module imports a file. */
export function importPath(module, file, js) {
  const path = posix.relative(posix.dirname(module), file);
  return `${path.startsWith('.') ? path : `./${path}`}${js}`;
}

/** The package manager whose lockfile is there. */
export function packageManagerOf(files) {
  const locks = { pnpm: 'pnpm-lock.yaml', yarn: 'yarn.lock', bun: 'bun.lock' };
  return Object.keys(locks).find((name) => files.read(locks[name]) !== undefined) ?? 'npm';
}

/**
 * Adds packages to a manifest; those that are there stay as they are. Returns whether there was one
 * to add.
 */
export function addPackages(files, manifest, packages, field = 'dependencies') {
  const known = { ...manifest.dependencies, ...manifest.devDependencies };
  const missing = Object.entries(packages).filter(([name]) => !(name in known));
  if (missing.length === 0) return false;
  writeManifest(files, {
    ...manifest,
    [field]: sorted({ ...manifest[field], ...Object.fromEntries(missing) }),
  });
  return true;
}

export function writeManifest(files, manifest) {
  files.write('package.json', `${JSON.stringify(manifest, null, 2)}\n`);
}

function sorted(ranges) {
  return Object.fromEntries(
    Object.entries(ranges).toSorted(([one], [other]) => (one < other ? -1 : 1)),
  );
}

/**
 * Writes the files of a template that are not there yet, and returns their paths. `values` fill the
 * places `{{name}}` of their texts and names.
 */
export function writeTemplate(files, template, folder, values, isTested = true) {
  const filled = (text) => text.replaceAll(/\{\{(\w+)\}\}/g, (_whole, name) => values[name] ?? '');
  const from = new URL(`${template}/`, TEMPLATES);
  return readdirSync(from)
    .toSorted()
    .filter((name) => isTested || !name.includes('.spec.'))
    .flatMap((name) => {
      const path = posix.join(folder, filled(name).replace(/\.txt$/, ''));
      if (files.read(path) !== undefined) return [];
      files.write(path, filled(readFileSync(new URL(encodeURIComponent(name), from), 'utf8')));
      return [path];
    });
}

/**
 * Adds a symbol to a list of the module in a file, and its import. Returns false where it is there
 * already.
 */
export function addToModule(files, path, list, symbol, from) {
  const text = files.read(path);
  if (new RegExp(`\\b${symbol}\\b`).test(text)) return false;
  files.write(path, withImport(withMember(text, list, symbol, path), symbol, from));
  return true;
}

/** The text with one more member in a list of its `@Module()`. */
function withMember(text, list, symbol, path) {
  const [, head] = /@Module\(\s*\{()/d.exec(text)?.indices?.[1] ?? [];
  if (head === undefined)
    throw new Error(
      `${path} has no class with @Module({ … }): write ${symbol} into the ${list} of your module.`,
    );
  const found = positionIn(text, head, list);
  if (found === undefined)
    return `${text.slice(0, head)}\n  ${list}: [${symbol}],${text.slice(head)}`;
  const isEmpty = /^\s*\]/.test(text.slice(found));
  return `${text.slice(0, found)}${symbol}${isEmpty ? '' : ', '}${text.slice(found)}`;
}

/**
 * The place behind the bracket that opens a list, among the keys of the object that begins at
 * `head`; undefined where there is no such list.
 */
function positionIn(text, head, list) {
  const tokens =
    /'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`\\]|\\.)*`|\/\/.*|\/\*[^]*?\*\/|[[{(]|[\]})]|\b(\w+)\s*:\s*\[/g;
  tokens.lastIndex = head;
  for (
    let depth = 0, token = tokens.exec(text);
    token !== null && depth >= 0;
    token = tokens.exec(text)
  ) {
    if (token[1] === list && depth === 0) return tokens.lastIndex;
    if (token[1] !== undefined || /^[[{(]$/.test(token[0])) depth += 1;
    else if (/^[\]})]$/.test(token[0])) depth -= 1;
  }
  return undefined;
}

function withImport(text, symbol, from) {
  const last = [...text.matchAll(/^import [^;]*;\n/gm)].at(-1);
  const at = last === undefined ? 0 : last.index + last[0].length;
  return `${text.slice(0, at)}import { ${symbol} } from '${from}';\n${text.slice(at)}`;
}
