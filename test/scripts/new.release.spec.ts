import { execFile } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { check, resolveConfig } from 'prettier';
import { RefusedCommandError, writeNew, type WrittenFiles } from '../../tools/scripts/new.js';

const run = promisify(execFile);
const SETTINGS = [
  '.swcrc',
  '.prettierrc',
  '.oxlintrc.json',
  'jest.config.mjs',
  'package.json',
  'tsconfig.json',
  'tsconfig.base.json',
];
const COPIED = [
  ...SETTINGS,
  'LICENSE',
  'libs',
  'tools/scripts',
  'test/jest',
  'test/architecture/layers.ts',
  'test/architecture/exports',
  'test/docs/fences.ts',
];
/**
 * What was built or installed, and the specs of all packages but wire, whose provider a new wire's
 * spec uses.
 */
const SKIPPED = /^libs\/(\w|-)+\/(dist|node_modules)$|^libs\/(?!wire\/)(\w|-)+\/test$/;
/** A compiler, a linter and a test runner start in the copy, on machines that may be busy. */
const LONG_MS = 120_000;
const copy = mkdtempSync(join(tmpdir(), 'toolloop-new-'));

afterAll(() => rmSync(copy, { recursive: true }));

/**
 * Copies the repository as far as the files need it; the packages in the copy are those of the
 * copy.
 */
function copyRepository(): void {
  for (const path of COPIED)
    cpSync(path, join(copy, path), { recursive: true, filter: (source) => !SKIPPED.test(source) });
  const packages = join(copy, 'node_modules');
  mkdirSync(join(packages, '@toolloop'), { recursive: true });
  for (const name of readdirSync('node_modules')) {
    if (name !== '@toolloop' && name !== '.cache')
      symlinkSync(resolve('node_modules', name), join(packages, name));
  }
  for (const library of readdirSync('libs'))
    symlinkSync(join(copy, 'libs', library), join(packages, '@toolloop', library));
}

/** Runs a command in the copy; the end of its output where it fails. */
async function inCopy(
  ...args: readonly string[]
): Promise<{ readonly status: number; readonly output: string }> {
  const options = {
    cwd: copy,
    env: { ...process.env, NODE_OPTIONS: '' },
    maxBuffer: 64 * 1024 * 1024,
  };
  try {
    const { stdout } = await run(process.execPath, args, options);
    return { status: 0, output: stdout };
  } catch (error) {
    if (!isEnded(error)) throw error;
    return { status: error.code, output: error.stdout + error.stderr };
  }
}

function isEnded(
  error: unknown,
): error is { readonly code: number; readonly stdout: string; readonly stderr: string } {
  return (
    typeof error === 'object' &&
    error !== null &&
    'code' in error &&
    typeof error.code === 'number' &&
    'stdout' in error
  );
}

const KINDS = [
  ['store', 'note-book'],
  ['strategy', 'after-hours'],
  ['wire', 'acme'],
] as const;

/** What a new test says of each kind until the change is written. */
const REASONS: Readonly<Record<string, string>> = {
  'libs/core/test/memory/memory-note-book-store.spec.ts':
    'MemoryNoteBookStore.save is not written yet',
  'libs/core/test/plugins/strategies/after-hours.spec.ts': 'desk__change',
  'libs/acme/test/acme-model.spec.ts': 'toAcmeRequest is not written yet',
};

interface JestReport {
  readonly numRuntimeErrorTestSuites: number;
  readonly testResults: readonly {
    readonly name: string;
    readonly assertionResults: readonly {
      readonly status: string;
      readonly failureMessages: readonly string[];
    }[];
  }[];
}

describe('npm run new', () => {
  const written: WrittenFiles[] = [];

  beforeAll(async () => {
    copyRepository();
    for (const [kind, name] of KINDS) written.push(await writeNew(kind, name, copy));
  }, LONG_MS);

  it(
    'writes files in the form of the house, without a placeholder left',
    async () => {
      const paths = written.flatMap(({ created, extended }) => [...created, ...extended]);
      expect(paths.length).toBeGreaterThan(12);
      for (const path of paths) {
        const text = readFileSync(join(copy, path), 'utf8');
        const form = { ...(await resolveConfig(path)), filepath: path };
        expect([
          path,
          /\{\{|\}\}\w/.exec(text),
          path.endsWith('LICENSE') || (await check(text, form)),
        ]).toEqual([path, null, true]);
      }
      const sources = paths.filter((path) => path.endsWith('.ts'));
      expect(await inCopy('node_modules/oxlint/bin/oxlint', ...sources)).toEqual({
        status: 0,
        output: expect.stringContaining('0 errors'),
      });
    },
    LONG_MS,
  );

  it(
    'writes files that compile',
    async () => {
      expect(
        await inCopy('node_modules/@typescript/native/bin/tsc', '-p', 'tsconfig.json'),
      ).toEqual({ status: 0, output: '' });
    },
    LONG_MS,
  );

  it(
    'writes tests that fail until the change is written, and say what to write',
    async () => {
      const specs = Object.keys(REASONS);
      const jest = [
        '--experimental-vm-modules',
        'node_modules/jest/bin/jest.js',
        '--json',
        '--outputFile=report.json',
        '--runInBand',
      ];
      const { status, output } = await inCopy(...jest, ...specs);
      const file = join(copy, 'report.json');
      expect([status, existsSync(file) || output]).toEqual([1, true]);
      const report = JSON.parse(readFileSync(file, 'utf8')) as JestReport;
      expect([report.numRuntimeErrorTestSuites, report.testResults.length]).toEqual([
        0,
        specs.length,
      ]);
      for (const { name, assertionResults } of report.testResults) {
        const reason = specs.find((spec) => name.endsWith(spec)) ?? name;
        const failures = assertionResults.flatMap(({ failureMessages }) => failureMessages);
        expect(failures.join('\n')).toContain(REASONS[reason]);
      }
    },
    LONG_MS,
  );

  it('adds to the entries and replaces no file', async () => {
    const entry = 'libs/core/src/memory/index.ts';
    expect(readFileSync(join(copy, entry), 'utf8').startsWith(readFileSync(entry, 'utf8'))).toBe(
      true,
    );
    for (const [kind, name] of KINDS) {
      const text = readFileSync(join(copy, entry), 'utf8');
      await expect(writeNew(kind, name, copy)).rejects.toThrow(
        / is there already: libs\/.+ exists\. Choose another name\.$/,
      );
      expect(readFileSync(join(copy, entry), 'utf8')).toBe(text);
    }
  });

  it('says what is left to do', () => {
    expect(written.map(({ next }) => next.split('\n')[0])).toEqual([
      'Write MemoryNoteBookStore until its contract holds: npm test -- libs/core/test/memory/memory-note-book-store',
      'Write AfterHoursStrategy.evaluate until its spec passes: npm test -- libs/core/test/plugins/strategies/after-hours',
      'Write acme-wire.ts until the spec passes: npm test -- libs/acme',
    ]);
  });
});

describe('a command that npm run new refuses', () => {
  it.each([
    ['no kind', [], 'Usage: '],
    ['no name', ['store'], 'Usage: '],
    ['a kind that does not exist', ['controller', 'a'], 'Usage: '],
    ['a name in another form', ['store', 'NoteBook'], '"NoteBook" is no name: '],
    ['a way out of the repository', ['store', '../note'], '"../note" is no name: '],
    ['a name that is too long', ['wire', 'a'.repeat(33)], 'is no name: '],
    [
      'a name that repeats its kind',
      ['store', 'note-store'],
      '"note-store" says "store" once more: ',
    ],
    [
      'the name of an exported class',
      ['store', 'pending'],
      'The name "pending" is taken: a package exports PendingStore.',
    ],
    ['the name of an exported function', ['strategy', 'unlock'], 'The name "unlock" is taken: '],
    [
      'a word of TypeScript',
      ['strategy', 'default'],
      'The name "default" is taken: "default" is a word of TypeScript.',
    ],
    ['the name of a library, also of a planned one', ['wire', 'mcp'], 'The name "mcp" is taken: '],
  ])('is told in one line: %s', async (_what, [kind, name], line) => {
    const refused: unknown = await writeNew(kind, name, copy).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(RefusedCommandError);
    expect((refused as Error).message).toContain(line);
    expect((refused as Error).message).not.toContain('\n');
  });

  it('ends the process with 1 and prints its line alone', async () => {
    const args = [
      '--conditions=@toolloop/source',
      '--import',
      '@swc-node/register/esm-register',
      'tools/scripts/new.ts',
      'store',
      'NoteBook',
    ];
    const { status, output } = await inCopy(...args);
    expect([status, output.trim().split('\n').length, output]).toEqual([
      1,
      1,
      expect.stringContaining('"NoteBook" is no name'),
    ]);
  });
});
