import {
  type ChildProcess,
  type ChildProcessByStdio,
  execFileSync,
  spawn,
} from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join, resolve } from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout as wait } from 'node:timers/promises';
import { freePort } from './local-registry.js';

const START_MS = 180_000;
const FIRST_TOOL = 'docs/start/first-tool.md';
/** The pages behind it, which need what it installs. Each begins anew. */
const NEXT_PAGES = ['docs/start/first-entity.md', 'docs/start/first-approval.md'];
const NEST = resolve('tools/release/node_modules/@nestjs/cli/bin/nest.js');
const SCHEMATICS = resolve(
  'tools/release/node_modules/@angular-devkit/schematics-cli/bin/schematics.js',
);
/** The programs of the tools of releases, behind those of the machine. */
const TOOLS = resolve('tools/release/node_modules/.bin');
const PNPM = join(TOOLS, 'pnpm');

/** The major versions of Node.js on which applications are tested and started. */
export const NODES = [22, 24] as const;
export type NodeMajor = (typeof NODES)[number];

/** The folders of the programs named `node`. */
const PROGRAMS: Readonly<Record<NodeMajor, string>> = {
  22: resolve(`tools/release/node_modules/node22-${process.platform}-${process.arch}/bin`),
  24: dirname(process.execPath),
};

/** An application that is made from nothing, with the packages as they are published. */
export interface FreshApplication {
  readonly name: string;
  /** The Node.js on which it is made and built. */
  readonly node: NodeMajor;
  readonly manager: 'npm' | 'pnpm';
  /**
   * Variables of its environment, such as the one by which package managers know a machine of
   * continuous integration.
   */
  readonly env?: Readonly<Record<string, string>>;
  /** Why its tests are not run on a Node.js. */
  readonly untested?: Partial<Readonly<Record<NodeMajor, string>>>;
  /** Makes it in a folder of its name. */
  make(at: Workplace): void;
  /** Asks it, where it is none with the assistant of `nest add`. */
  readonly ask?: Asking;
}

/**
 * Asks an application at an address; the token is that of the link to its console. Throws an error
 * where it does not answer as it should.
 */
type Asking = (url: string, link: string) => Promise<void>;

/** A place where an application is made, and a Node.js for it. */
export class Workplace {
  constructor(
    readonly folder: string,
    readonly application: FreshApplication,
    private readonly env: Readonly<Record<string, string>>,
    readonly node: NodeMajor = madeOn(application),
  ) {}

  /** The same place with another Node.js. */
  on(node: NodeMajor): Workplace {
    return new Workplace(this.folder, this.application, this.env, node);
  }

  get root(): string {
    return join(this.folder, this.application.name);
  }

  get hasNode(): boolean {
    return isThere(this.node);
  }

  get environment(): NodeJS.ProcessEnv {
    const {
      NODE_OPTIONS: _options,
      NODE_ENV: _env,
      CI: _ci,
      npm_config_user_agent: _agent,
      ...known
    } = process.env;
    return {
      ...known,
      ...this.env,
      ...this.application.env,
      PATH: [PROGRAMS[this.node], known['PATH'] ?? '', TOOLS].join(delimiter),
      NO_COLOR: '1',
    };
  }

  /** Runs a program in the application, and fails with what it has printed. */
  run(program: string, ...args: readonly string[]): string {
    return this.runIn(this.root, program, ...args);
  }

  runIn(cwd: string, program: string, ...args: readonly string[]): string {
    return execFileSync(program, args, {
      cwd,
      env: this.environment,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
      maxBuffer: 64 * 1024 * 1024,
    });
  }

  /** The package manager of the application. */
  get manager(): string {
    return this.application.manager === 'pnpm' ? PNPM : 'npm';
  }

  manage(...args: readonly string[]): string {
    return this.run(this.manager, ...args);
  }

  edit(path: string, change: (text: string) => string): void {
    const file = join(this.root, path);
    writeFileSync(file, change(readFileSync(file, 'utf8')));
  }
}

/** Whether this machine has a Node.js. */
function isThere(node: NodeMajor): boolean {
  return existsSync(join(PROGRAMS[node], 'node'));
}

/**
 * The Node.js that makes an application: its own, or the one that runs this where the machine has
 * not got it.
 */
export function madeOn({ node }: FreshApplication): NodeMajor {
  return isThere(node) ? node : 24;
}

/** `nest new`, as ESM with Vitest. */
function newEsm(at: Workplace, manager: string): void {
  at.runIn(
    at.folder,
    process.execPath,
    NEST,
    'new',
    at.root.slice(at.folder.length + 1),
    '--skip-git',
    '--skip-install',
    '--no-observe',
    '--package-manager',
    manager,
  );
}

/** What a page shows under the names of files, such as ```ts [src/order.tools.ts]. */
function filesOn(page: string): readonly (readonly [path: string, text: string])[] {
  const fences = readFileSync(page, 'utf8').matchAll(/^```ts \[(src\/[^\]]+)\]\n([^]*?)^```$/gm);
  return [...fences].map(([, path = '', text = '']) => [path, text]);
}

/**
 * `nest new`, answered with CommonJS: it asks for the type of modules, and takes ESM where there is
 * no terminal. This is what it runs then.
 */
function newCommonJs(at: Workplace, manager: string): void {
  at.runIn(
    at.folder,
    process.execPath,
    SCHEMATICS,
    '@nestjs/schematics:application',
    `--name=${at.application.name}`,
    '--type=cjs',
    '--language=ts',
    `--package-manager=${manager}`,
    '--observe=false',
  );
}

/**
 * Writes the files of a page that begins anew, runs its test, and deletes it, as the page behind it
 * says.
 */
function follow(at: Workplace, page: string): void {
  const files = filesOn(page);
  for (const [path, text] of files) writeFileSync(join(at.root, path), text);
  within(`The tests of ${page}`, () => at.manage('run', 'test'));
  for (const [path] of files) if (path.endsWith('.spec.ts')) rmSync(join(at.root, path));
}

/** Runs `create-toolloop` as the package manager of the application does it. */
function create(at: Workplace, ...args: readonly string[]): void {
  at.runIn(
    at.folder,
    at.manager,
    ...args,
    at.application.name,
    ...(at.application.manager === 'npm' ? ['--'] : []),
    '--skip-git',
  );
}

const JEST_NEEDS_24 =
  'Jest requires the modules of Nest 12 from Node 24.9 on; what "nest new" writes fails on 22 without a line of ours';
const CI = { CI: '1' };

export const FRESH_APPLICATIONS: readonly FreshApplication[] = [
  {
    name: 'first-tool',
    node: 24,
    manager: 'npm',
    make: (at) => {
      newEsm(at, 'npm');
      const commands = readFileSync(FIRST_TOOL, 'utf8').match(/^npm install .+$/gm) ?? [];
      for (const command of commands) at.run('npm', ...command.split(' ').slice(1));
      for (const page of NEXT_PAGES) follow(at, page);
      for (const [path, text] of filesOn(FIRST_TOOL)) writeFileSync(join(at.root, path), text);
    },
    ask: askFirstTool,
  },
  {
    name: 'created',
    node: 24,
    manager: 'npm',
    make: (at) => {
      create(at, 'create', '--yes', 'toolloop');
      at.manage('run', 'test'); // before anything else installs what it had forgotten
      at.run('npx', 'nest', 'generate', '--collection', '@toolloop/core', 'tool', 'weather');
      at.run('npx', 'nest', 'generate', '--collection', '@toolloop/core', 'entity', 'card');
      at.run('npx', 'nest', 'generate', '--collection', '@toolloop/core', 'resource', 'product');
      at.run('npx', 'nest', 'upgrade', '--collection', '@toolloop/core');
      at.run('npx', 'nest', 'add', '@toolloop/core');
      at.manage('run', 'lint');
      at.run('npx', 'prettier', '--check', 'src');
      at.manage('run', 'test:e2e');
    },
  },
  {
    name: 'created-pnpm',
    node: 22,
    manager: 'pnpm',
    env: CI,
    make: (at) => create(at, 'create', 'toolloop'),
  },
  {
    name: 'swc',
    node: 22,
    manager: 'pnpm',
    make: (at) => {
      newEsm(at, 'pnpm');
      at.edit('nest-cli.json', (text) =>
        text.replace('"deleteOutDir"', '"builder": "swc",\n    "deleteOutDir"'),
      );
      at.manage('add', '--save-dev', '@swc/cli', '@swc/core', 'toolloop');
      at.manage('exec', 'toolloop', 'init');
    },
  },
  {
    name: 'commonjs',
    node: 24,
    manager: 'npm',
    untested: { 22: JEST_NEEDS_24 },
    make: (at) => {
      newCommonJs(at, 'npm');
      at.manage('install');
      at.run('npx', 'nest', 'add', '@toolloop/core');
    },
  },
  {
    name: 'commonjs-pnpm',
    node: 24,
    manager: 'pnpm',
    env: CI,
    untested: { 22: JEST_NEEDS_24 },
    make: (at) => {
      newCommonJs(at, 'pnpm');
      at.manage('install');
      at.manage('exec', 'nest', 'add', '@toolloop/core');
    },
  },
  {
    name: 'fastify',
    node: 22,
    manager: 'npm',
    make: (at) => {
      newEsm(at, 'npm');
      at.manage('uninstall', '@nestjs/platform-express');
      at.manage('install', '@nestjs/platform-fastify');
      at.edit('src/main.ts', (text) =>
        text
          .replace(
            'NestFactory.create(AppModule)',
            'NestFactory.create(AppModule, new FastifyAdapter())',
          )
          .replace(/^/, "import { FastifyAdapter } from '@nestjs/platform-fastify';\n"),
      );
      at.run('npx', 'nest', 'add', '@toolloop/core');
      at.edit('src/assistant/assistant.spec.ts', (text) =>
        text
          .replace('createNestApplication()', 'createNestApplication(new FastifyAdapter())')
          .replace(/^/, "import { FastifyAdapter } from '@nestjs/platform-fastify';\n"),
      );
    },
  },
];

/**
 * Tests, builds and starts an application on every Node.js that this machine has, asks it for a
 * tool and for a refund, and opens its console. The Node.js with which it was made starts it as the
 * first steps say, with `start:dev`; the others what was built.
 *
 * @returns what was left out, and why
 * @throws Error that says what is not as it should be
 */
export async function tryApplication(at: Workplace): Promise<readonly string[]> {
  const places = NODES.map((node) => at.on(node));
  for (const place of places)
    if (place.hasNode && at.application.untested?.[place.node] === undefined)
      within(`Its tests on Node ${place.node}`, () => place.manage('run', 'test'));
  within('Its build', () => at.manage('run', 'build'));
  for (const place of places) if (place.hasNode) await startAndAsk(place);
  return places.flatMap((place) => leftOut(place));
}

function leftOut({ node, hasNode, application: { untested = {} } }: Workplace): readonly string[] {
  if (!hasNode)
    return [
      `nothing was tried on Node ${node}: its package has no program for ${process.platform} on ${process.arch}`,
    ];
  return untested[node] === undefined
    ? []
    : [`its tests were not run on Node ${node}: ${untested[node]}`];
}

/** Names what has failed before the output of a program. */
export function within(what: string, work: () => unknown): void {
  try {
    work();
  } catch (error) {
    if (error instanceof Error) error.message = `${what}: ${error.message}`;
    throw error;
  }
}

async function startAndAsk(at: Workplace): Promise<void> {
  const port = await freePort();
  const server = startOf(at, port);
  const output: string[] = [];
  for (const stream of [server.stdout, server.stderr])
    stream.on('data', (chunk: Buffer) => output.push(chunk.toString()));
  try {
    const { ask = askAssistant } = at.application;
    await ask(`http://127.0.0.1:${port}`, await linkOf(server, output));
  } catch (error) {
    const said = error instanceof Error ? error.message : String(error);
    throw new Error(
      `Its start on Node ${at.node}: ${said} It printed:\n${output.join('').slice(-4_000)}`,
      { cause: error },
    );
  } finally {
    await stop(server);
  }
}

/** Starts it in a group of processes, since a package manager does not hand on every signal. */
function startOf(at: Workplace, port: number): ChildProcessByStdio<null, Readable, Readable> {
  const isMade = at.node === madeOn(at.application);
  const main = existsSync(join(at.root, 'dist/main.js')) ? 'dist/main.js' : 'dist/src/main.js';
  const [program, args] = isMade
    ? [at.manager, ['run', 'start:dev']]
    : [join(PROGRAMS[at.node], 'node'), [main]];
  return spawn(program, args, {
    cwd: at.root,
    env: { ...at.environment, PORT: String(port), DEV_TOKEN: 'dev' },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
}

async function stop(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null || server.pid === undefined) return;
  process.kill(-server.pid);
  await once(server, 'exit');
}

/** The token of the link to the console that a start prints. */
async function linkOf(server: ChildProcess, output: readonly string[]): Promise<string> {
  for (
    const end = performance.now() + START_MS;
    server.exitCode === null && performance.now() < end;
    await wait(100)
  ) {
    const [, link] = /#link=([\w-]+)/.exec(output.join('')) ?? [];
    if (link !== undefined) return link;
  }
  throw new Error('It does not start.');
}

/** Returns what an application says: to a question as a body, or to a request without one. */
async function answerOf(url: string, token: string, body?: object): Promise<string> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const response = await fetch(
    url,
    body ? { method: 'POST', headers, body: JSON.stringify(body) } : { headers },
  );
  const text = await response.text();
  if (response.status !== 200)
    throw new Error(`${url} answered ${response.status}: ${text.slice(0, 300)}`);
  return text;
}

function mustHave(text: string, wanted: string): void {
  if (!text.includes(wanted)) throw new Error(`There is no ${wanted} in ${text.slice(0, 2_000)}`);
}

async function enterConsole(url: string, link: string): Promise<void> {
  const entering = {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-toolloop-console': '1' },
    body: JSON.stringify({ link }),
  };
  const entered = await fetch(`${url}/console/session`, entering);
  if (entered.status !== 204)
    throw new Error(`The link to the console answered ${entered.status}: ${await entered.text()}`);
}

async function askAssistant(url: string, link: string): Promise<void> {
  mustHave(
    await answerOf(`${url}/ask?question=Find+the+orders+of+Ada+Lovelace`, 'dev'),
    '"tool":"orders__find"',
  );
  mustHave(
    await answerOf(`${url}/assistant/chat`, 'dev', {
      message: 'Refund the order o-1 of Ada Lovelace',
    }),
    '"waitingFor":"approval"',
  );
  mustHave(await answerOf(`${url}/console`, 'dev'), '<script');
  await enterConsole(url, link);
  const { status } = await fetch(`${url}/ask?question=Hello`);
  if (status !== 401) throw new Error(`/ask without a token answered ${status}, not 401.`);
}

async function askFirstTool(url: string, link: string): Promise<void> {
  mustHave(
    await answerOf(`${url}/chat`, 'alice', { message: 'What is the status of order o-7?' }),
    '"status":"shipped"',
  );
  await enterConsole(url, link);
}
