import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { installStaged, stagePackages, type StagedPackage } from '../../tools/release/packages.js';
import { publishCommands } from '../../tools/release/publishing.js';

/**
 * The most kilobytes that a package may have when it is unpacked, and the most files. What is
 * larger was packed by mistake, or is worth a raised line here: the application installs it.
 */
const BUDGETS: Readonly<Record<string, number>> = {
  '@toolloop/anthropic': 70,
  '@toolloop/client': 40,
  '@toolloop/console': 600,
  '@toolloop/core': 2800,
  '@toolloop/durable': 310,
  '@toolloop/evals': 55,
  '@toolloop/http': 270,
  '@toolloop/mcp': 265,
  '@toolloop/offline': 85,
  '@toolloop/openai': 125,
  '@toolloop/protocol': 220,
  '@toolloop/react': 45,
  '@toolloop/resources': 280,
  '@toolloop/telemetry': 70,
  '@toolloop/testing': 320,
  '@toolloop/toolbox': 105,
  '@toolloop/ui-stream': 90,
  '@toolloop/wire': 85,
  'create-toolloop': 10,
  toolloop: 110,
};
const REPOSITORY = 'https://example.com/acme/toolloop';
const folder = mkdtempSync(join(tmpdir(), 'toolloop-packages-'));

interface Published {
  readonly license: string;
  readonly keywords: readonly string[];
  readonly exports?: Readonly<Record<string, string | Readonly<Record<string, string>>>>;
  readonly bin?: Readonly<Record<string, string>>;
  readonly repository: unknown;
  readonly homepage: unknown;
  readonly bugs: unknown;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

function readStaged({ folder: from }: StagedPackage): Published {
  return JSON.parse(readFileSync(join(from, 'package.json'), 'utf8')) as Published;
}

/** The files that a manifest leads to. */
function targetsOf({ exports = {}, bin = {} }: Published): readonly string[] {
  return [
    ...Object.values(exports).flatMap((target) =>
      typeof target === 'string' ? [target] : Object.values(target),
    ),
    ...Object.values(bin),
  ];
}

/**
 * Imports modules in a process of their own, and returns the names that each exports, with the
 * names of its functions and classes.
 */
function exportedBy(modules: readonly string[]): readonly (readonly string[])[] {
  const script = `
    const exported = [];
    for (const path of ${JSON.stringify(modules)})
      exported.push(Object.entries(await import(path)).map(([name, value]) => name + ' ' + (typeof value === 'function' ? value.name : '')));
    console.log(JSON.stringify(exported));
    process.exit();`;
  const printed = execFileSync(
    process.execPath,
    ['--no-warnings', '--input-type=module', '--eval', script],
    { encoding: 'utf8' },
  );
  return JSON.parse(printed) as readonly (readonly string[])[];
}

/** What an import loads. */
interface Loaded {
  /** The files, and their bytes together. */
  readonly files: readonly string[];
  readonly kilobytes: number;
  /** The modules of Node that are loaded for it. */
  readonly ofNode: readonly string[];
}

/**
 * Imports modules in a process of their own, where the packages are installed as they are
 * published, and returns what that loads beyond other modules.
 */
function loadedBy(modules: readonly string[], beside: readonly string[] = []): Loaded {
  const script = `
    import { registerHooks } from 'node:module';
    const files = new Map();
    registerHooks({
      load(url, context, next) {
        const loaded = next(url, context);
        if (url.startsWith('file:')) files.set(url.slice(url.lastIndexOf('/node_modules/') + '/node_modules/'.length), loaded.source?.length ?? 0);
        return loaded;
      },
    });
    for (const name of ${JSON.stringify(beside)}) await import(name);
    files.clear();
    const before = new Set(process.moduleLoadList);
    for (const name of ${JSON.stringify(modules)}) await import(name);
    const ofNode = process.moduleLoadList.filter((name) => !before.has(name)).map((name) => name.replace('NativeModule ', ''));
    const bytes = [...files.values()].reduce((sum, size) => sum + size, 0);
    console.log(JSON.stringify({ files: [...files.keys()], kilobytes: Math.ceil(bytes / 1_000), ofNode }));
    process.exit();`;
  const nodeArguments = ['--no-warnings', '--input-type=module', '--eval', script];
  return JSON.parse(
    execFileSync(process.execPath, nodeArguments, {
      cwd: join(folder, 'application'),
      encoding: 'utf8',
    }),
  ) as Loaded;
}

describe('the packages as they are published', () => {
  let staged: readonly StagedPackage[] = [];
  beforeAll(() => {
    staged = stagePackages(folder, REPOSITORY);
    installStaged(staged, join(folder, 'application'));
    symlinkSync(resolve('node_modules'), join(folder, 'node_modules'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it('are within their budgets of bytes', () => {
    const over = staged.flatMap(({ manifest: { name }, files }) => {
      const kilobytes = Math.ceil(
        [...files.values()].reduce((sum, bytes) => sum + bytes, 0) / 1_000,
      );
      return kilobytes > (BUDGETS[name] ?? 0) ? [`${name}: ${kilobytes} kB`] : [];
    });
    expect(staged.length).toBeGreaterThan(15);
    expect(over).toEqual([]);
  });

  it('hold no sources, no specs, no maps, and no comment that leads to a map', () => {
    const stray = /\.(?:map|tsbuildinfo)$|\.spec\.[jt]s$|(?<!\.d)\.tsx?$/;
    const paths = staged.flatMap(({ manifest: { name }, files }) =>
      [...files.keys()].map((path) => `${name}/${path}`),
    );
    expect(paths.filter((path) => stray.test(path))).toEqual([]);
    const scripts = staged.flatMap(({ folder: from, files }) =>
      [...files.keys()].filter((path) => path.endsWith('.js')).map((path) => join(from, path)),
    );
    expect(
      scripts.filter((path) => readFileSync(path, 'utf8').includes('//# sourceMappingURL=')),
    ).toEqual([]);
  });

  it('lead to nothing but files that they hold', () => {
    const gone = staged.flatMap((one) =>
      targetsOf(readStaged(one)).flatMap((path) =>
        existsSync(join(one.folder, path)) ? [] : [`${one.folder}: ${path}`],
      ),
    );
    expect(gone).toEqual([]);
    expect(
      staged.filter((one) =>
        readFileSync(join(one.folder, 'package.json'), 'utf8').includes('@toolloop/source'),
      ),
    ).toEqual([]);
  });

  it('have bundled entries that export what was compiled, under the same names', () => {
    const scripts = staged.flatMap((one) =>
      targetsOf(readStaged(one)).flatMap((path) =>
        /^\.\/dist\/.*\.js$/.test(path) ? [{ one, path }] : [],
      ),
    );
    expect(scripts.length).toBeGreaterThan(30);
    const bundled = exportedBy(scripts.map(({ one, path }) => join(one.folder, path)));
    expect(bundled).toEqual(exportedBy(scripts.map(({ one, path }) => resolve(one.source, path))));
  });

  it('have every file that a script finds by its own address', () => {
    const found = staged.flatMap((one) =>
      [...one.files.keys()]
        .filter(
          (path) =>
            path.startsWith('dist/') && path.endsWith('.js') && !path.startsWith('dist/page/'),
        )
        .flatMap((path) =>
          Array.from(
            readFileSync(join(one.folder, path), 'utf8').matchAll(
              /"(\.[^"]+\.js)"[^;]*import\.meta\.url/g,
            ),
            ([, file = '']) => join(one.folder, dirname(path), file),
          ),
        ),
    );
    expect(found.map((path) => [path, existsSync(path)])).toEqual([
      [expect.stringMatching(/web-page\/html-worker\.js$/), true],
    ]);
  });

  it('have a main entry of core that is one file behind its index', () => {
    const core = staged.find(({ manifest: { name } }) => name === '@toolloop/core');
    const entry = readFileSync(join(core?.folder ?? '', 'dist/index.js'), 'utf8');
    expect(entry.match(/from "\.\//g)).toHaveLength(1);
  });

  it.each(['openai', 'anthropic'])(
    'have a wire of %s that loads at most seven files, and neither TLS nor the HTTP client before the first request',
    (wire) => {
      const { files, kilobytes, ofNode } = loadedBy([`@toolloop/${wire}`, '@toolloop/protocol']);
      expect(files).toEqual(
        expect.arrayContaining([`@toolloop/${wire}/dist/index.js`, '@toolloop/wire/dist/index.js']),
      );
      expect(files.length).toBeLessThanOrEqual(7);
      expect(kilobytes).toBeLessThanOrEqual(150);
      expect(ofNode.filter((name) => /http|tls|net|crypto|zlib|undici|worker/.test(name))).toEqual(
        [],
      );
    },
  );

  it('have a core that loads at most twelve files beside Nest', () => {
    const { files } = loadedBy(
      ['@toolloop/core'],
      ['reflect-metadata', '@nestjs/common', '@nestjs/core'],
    );
    expect(files).toContain('@toolloop/core/dist/index.js');
    expect(files.length).toBeLessThanOrEqual(12);
  });

  it('have a licence, a README, keywords, and the addresses that follow from one constant', () => {
    for (const one of staged) {
      const { license, keywords, repository, homepage, bugs } = readStaged(one);
      expect([
        one.manifest.name,
        license,
        one.files.has('LICENSE'),
        one.files.has('README.md'),
      ]).toEqual([one.manifest.name, 'MIT', true, true]);
      expect(keywords).toEqual(expect.arrayContaining(['toolloop', 'nestjs', 'llm']));
      expect(repository).toEqual({
        type: 'git',
        url: `git+${REPOSITORY}.git`,
        directory: one.source,
      });
      expect([homepage, bugs]).toEqual([
        `${REPOSITORY}/tree/main/${one.source}#readme`,
        { url: `${REPOSITORY}/issues` },
      ]);
    }
  });

  it('take their siblings in their own version, and Nest in a range', () => {
    const ranges = staged.flatMap((one) => {
      const { dependencies, peerDependencies } = readStaged(one);
      return Object.entries({ ...dependencies, ...peerDependencies });
    });
    const own = new Map(staged.map(({ manifest: { name, version } }) => [name, `^${version}`]));
    const siblings = ranges.filter(([name]) => own.has(name));
    expect(siblings.length).toBeGreaterThan(20);
    expect(siblings.filter(([name, range]) => range !== own.get(name))).toEqual([]);
    expect(
      new Set(ranges.filter(([name]) => name === '@nestjs/core').map(([, range]) => range)),
    ).toEqual(new Set(['^12.0.0']));
  });

  it('are packed without the address of the repository, and published neither without it nor without a version', () => {
    expect(() => publishCommands(staged, folder, '')).toThrow(
      'set REPOSITORY in tools/release/project.ts',
    );
    expect(() => publishCommands(staged, folder, REPOSITORY)).toThrow(
      'are 0.0.0. Run "npm run release:version"',
    );
    const react = staged.find(({ manifest: { name } }) => name === '@toolloop/react');
    const versioned = react
      ? [{ ...react, manifest: { ...react.manifest, version: '1.2.3' } }]
      : [];
    for (const { folder: to, manifest } of versioned)
      writeFileSync(join(to, 'package.json'), JSON.stringify(manifest));
    expect(publishCommands(versioned, join(folder, 'made'), REPOSITORY)).toEqual([
      [
        'publish',
        join(folder, 'made/toolloop-react-1.2.3.tgz'),
        '--access',
        'public',
        '--provenance',
      ],
    ]);
  });
});
