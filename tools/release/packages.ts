import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { bundlePackages } from './bundles.js';
import { REPOSITORY } from './project.js';

/** A part of a package.json that is published. */
export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly exports?: Readonly<Record<string, Target>>;
  readonly bin?: Readonly<Record<string, string>>;
  readonly dependencies?: Ranges;
  readonly peerDependencies?: Ranges;
  /** The folders of the packages; of the repository itself alone. */
  readonly workspaces?: readonly string[];
}

type Target = string | Readonly<Record<string, string>>;
type Ranges = Readonly<Record<string, string>>;

/** A package as it is published: a folder with its manifest and its files. */
export interface StagedPackage {
  readonly manifest: Manifest;
  /** Its folder in the repository. */
  readonly source: string;
  readonly folder: string;
  /** The sizes of its files in bytes, by their paths. */
  readonly files: ReadonlyMap<string, number>;
}

/** Entries of a manifest that only this repository needs. */
const OWN_FIELDS: ReadonlySet<string> = new Set(['scripts', 'devDependencies']);
const SOURCE_CONDITION = '@toolloop/source';

/**
 * A package that no other needs, so that it is no workspace: its dependency is not installed here.
 * It has the version of the others.
 */
const APART = 'libs/create-toolloop';

/** The folders of the packages that are published, relative to the repository. */
function packageFolders(): readonly string[] {
  return [...(manifestOf('.').workspaces ?? []), APART];
}

/**
 * Writes every package below a folder as it is published. Its scripts are bundled, its manifest
 * leads to what is built alone, takes its siblings in its own version, and names the repository.
 * Maps stay here, since the sources they lead to are not published. Run `npm run build` first.
 *
 * @throws Error where a package is not built
 */
export function stagePackages(
  destination: string,
  repository = REPOSITORY,
): readonly StagedPackage[] {
  const folders = packageFolders();
  const lists = packedFiles();
  const { version } = manifestOf('libs/core');
  const names = new Set(folders.map((folder) => manifestOf(folder).name));
  const packages = folders.map((from) => {
    const manifest = { ...manifestOf(from), version };
    const folder = join(destination, from);
    const paths = (lists.get(manifest.name) ?? []).filter((path) => !path.endsWith('.map'));
    if (!paths.some((path) => /\.m?js$/.test(path)))
      throw new Error(`${manifest.name} is not built: run "npm run build".`);
    const published = publishedManifest(manifest, names, from, repository);
    return { manifest: published, source: from, folder, paths };
  });
  const bundles = bundlePackages(packages);
  return packages.map(({ manifest, source, folder, paths }, index) => {
    const { written, replaced } = bundles[index] ?? { written: [], replaced: new Set() };
    const copied = paths.filter((path) => !replaced.has(path));
    for (const path of copied) copyWithoutMap(join(source, path), join(folder, path));
    writeFileSync(join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
    const files = new Map(
      [...copied, ...written].map((path) => [path, readFileSync(join(folder, path)).length]),
    );
    return { manifest, source, folder, files };
  });
}

/**
 * Copies staged packages to where Node finds them from a folder of this repository, beside the
 * dependencies of the project.
 */
export function installStaged(staged: readonly StagedPackage[], destination: string): void {
  rmSync(destination, { recursive: true, force: true });
  for (const { manifest, folder } of staged)
    cpSync(folder, join(destination, 'node_modules', manifest.name), { recursive: true });
}

/** Makes a tarball of each staged package, and returns their paths by the names of the packages. */
export function packStaged(
  staged: readonly StagedPackage[],
  destination: string,
): ReadonlyMap<string, string> {
  mkdirSync(destination, { recursive: true });
  const folders = staged.map(({ folder }) => folder);
  npm('pack', '--silent', '--ignore-scripts', '--pack-destination', destination, ...folders);
  const tarballs = readdirSync(destination);
  return new Map(
    staged.map(({ manifest: { name, version } }) => {
      const file = `${name.replace('@', '').replace('/', '-')}-${version}.tgz`;
      if (!tarballs.includes(file)) throw new Error(`npm pack made no ${file}.`);
      return [name, join(destination, file)];
    }),
  );
}

/** The manifest that is published of one in this repository. */
export function publishedManifest(
  manifest: Manifest,
  names: ReadonlySet<string>,
  folder: string,
  repository: string,
): Manifest {
  const kept = Object.fromEntries(
    Object.entries(manifest).filter(([field]) => !OWN_FIELDS.has(field)),
  );
  const ranges = (own: Ranges): Ranges =>
    Object.fromEntries(
      Object.entries(own).map(([name, range]) => [
        name,
        names.has(name) ? `^${manifest.version}` : range,
      ]),
    );
  return {
    ...kept,
    name: manifest.name,
    version: manifest.version,
    ...(repository !== '' && {
      repository: { type: 'git', url: `git+${repository}.git`, directory: folder },
      homepage: `${repository}/tree/main/${folder}#readme`,
      bugs: { url: `${repository}/issues` },
    }),
    ...(manifest.exports && { exports: builtExports(manifest.exports) }),
    ...(manifest.dependencies && { dependencies: ranges(manifest.dependencies) }),
    ...(manifest.peerDependencies && { peerDependencies: ranges(manifest.peerDependencies) }),
  };
}

function builtExports(entries: NonNullable<Manifest['exports']>): NonNullable<Manifest['exports']> {
  return Object.fromEntries(
    Object.entries(entries).map(([subpath, target]) => [subpath, builtTarget(target)]),
  );
}

function builtTarget(target: Target): Target {
  if (typeof target === 'string') return target;
  return Object.fromEntries(
    Object.entries(target).filter(([condition]) => condition !== SOURCE_CONDITION),
  );
}

function copyWithoutMap(from: string, to: string): void {
  mkdirSync(dirname(to), { recursive: true });
  cpSync(from, to);
  if (/\.(?:js|d\.ts)$/.test(to))
    writeFileSync(
      to,
      readFileSync(from, 'utf8').replace(/\n\/\/# sourceMappingURL=.*\.map\s*$/, '\n'),
    );
}

interface PackList {
  readonly name: string;
  readonly files: readonly { readonly path: string }[];
}

/** The paths of the files that npm packs of each workspace, by the names of the packages. */
function packedFiles(): ReadonlyMap<string, readonly string[]> {
  const dryRun = ['--dry-run', '--json', '--ignore-scripts'];
  const outputs = [npm('pack', '--workspaces', ...dryRun), npm('pack', `./${APART}`, ...dryRun)];
  const lists = outputs.flatMap((output) =>
    Object.values(JSON.parse(output) as Readonly<Record<string, PackList>>),
  );
  return new Map(lists.map(({ name, files }) => [name, files.map(({ path }) => path)]));
}

/** Runs npm and returns what it prints. */
export function npm(...args: readonly string[]): string {
  return execFileSync('npm', args, {
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

function manifestOf(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest;
}
