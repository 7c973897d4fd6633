import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { stagePackages, type StagedPackage } from '../../release/packages.js';
import { publishCommands } from '../../release/publishing.js';

/**
 * The most kilobytes that a package may have when it is unpacked, and the most files. What is larger was packed by mistake, or is worth a raised line here: the
 * application installs it.
 */
const BUDGETS: Readonly<Record<string, readonly [kilobytes: number, files: number]>> = {
  '@toolloop/anthropic': [100, 30],
  '@toolloop/client': [60, 20],
  '@toolloop/console': [570, 60],
  '@toolloop/core': [3_300, 560],
  '@toolloop/durable': [350, 65],
  '@toolloop/evals': [80, 25],
  '@toolloop/http': [310, 65],
  '@toolloop/mcp': [310, 65],
  '@toolloop/offline': [120, 40],
  '@toolloop/openai': [150, 45],
  '@toolloop/protocol': [140, 45],
  '@toolloop/react': [60, 30],
  '@toolloop/resources': [300, 65],
  '@toolloop/telemetry': [90, 35],
  '@toolloop/testing': [390, 80],
  '@toolloop/toolbox': [150, 45],
  '@toolloop/ui-stream': [110, 30],
  '@toolloop/wire': [110, 30],
  'create-toolloop': [10, 6],
  toolloop: [150, 60],
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
    ...Object.values(exports).flatMap((target) => (typeof target === 'string' ? [target] : Object.values(target))),
    ...Object.values(bin),
  ];
}

describe('the packages as they are published', () => {
  let staged: readonly StagedPackage[] = [];
  beforeAll(() => {
    staged = stagePackages(folder, REPOSITORY);
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it('are within their budgets of bytes and files', () => {
    const over = staged.flatMap(({ manifest: { name }, files }) => {
      const kilobytes = Math.ceil([...files.values()].reduce((sum, bytes) => sum + bytes, 0) / 1_000);
      const [mostKilobytes, mostFiles] = BUDGETS[name] ?? [0, 0];
      return kilobytes > mostKilobytes || files.size > mostFiles ? [`${name}: ${kilobytes} kB in ${files.size} files`] : [];
    });
    expect(staged.length).toBeGreaterThan(15);
    expect(over).toEqual([]);
  });

  it('hold no sources, no specs, no maps, and no comment that leads to a map', () => {
    const stray = /\.(?:map|tsbuildinfo)$|\.spec\.[jt]s$|(?<!\.d)\.tsx?$/;
    const paths = staged.flatMap(({ manifest: { name }, files }) => [...files.keys()].map((path) => `${name}/${path}`));
    expect(paths.filter((path) => stray.test(path))).toEqual([]);
    const scripts = staged.flatMap(({ folder: from, files }) =>
      [...files.keys()].filter((path) => path.endsWith('.js')).map((path) => join(from, path)),
    );
    expect(scripts.filter((path) => readFileSync(path, 'utf8').includes('//# sourceMappingURL='))).toEqual([]);
  });

  it('lead to nothing but files that they hold', () => {
    const gone = staged.flatMap((one) =>
      targetsOf(readStaged(one)).flatMap((path) => (existsSync(join(one.folder, path)) ? [] : [`${one.folder}: ${path}`])),
    );
    expect(gone).toEqual([]);
    expect(staged.filter((one) => readFileSync(join(one.folder, 'package.json'), 'utf8').includes('@toolloop/source'))).toEqual([]);
  });

  it('have a licence, a README, keywords, and the addresses that follow from one constant', () => {
    for (const one of staged) {
      const { license, keywords, repository, homepage, bugs } = readStaged(one);
      expect([one.manifest.name, license, one.files.has('LICENSE'), one.files.has('README.md')]).toEqual([
        one.manifest.name,
        'MIT',
        true,
        true,
      ]);
      expect(keywords).toEqual(expect.arrayContaining(['toolloop', 'nestjs', 'llm']));
      expect(repository).toEqual({ type: 'git', url: `git+${REPOSITORY}.git`, directory: one.source });
      expect([homepage, bugs]).toEqual([`${REPOSITORY}/tree/main/${one.source}#readme`, { url: `${REPOSITORY}/issues` }]);
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
    expect(new Set(ranges.filter(([name]) => name === '@nestjs/core').map(([, range]) => range))).toEqual(new Set(['^12.0.0']));
  });

  it('are packed without the address of the repository, and published neither without it nor without a version', () => {
    expect(() => publishCommands(staged, folder, '')).toThrow('set REPOSITORY in release/project.ts');
    expect(() => publishCommands(staged, folder, REPOSITORY)).toThrow('are 0.0.0. Run "npm run release:version"');
    const react = staged.find(({ manifest: { name } }) => name === '@toolloop/react');
    const versioned = react ? [{ ...react, manifest: { ...react.manifest, version: '1.2.3' } }] : [];
    for (const { folder: to, manifest } of versioned) writeFileSync(join(to, 'package.json'), JSON.stringify(manifest));
    expect(publishCommands(versioned, join(folder, 'made'), REPOSITORY)).toEqual([
      ['publish', join(folder, 'made/toolloop-react-1.2.3.tgz'), '--access', 'public', '--provenance'],
    ]);
  });
});
