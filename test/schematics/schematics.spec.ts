import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { INestApplication, Type } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { type LoopResult, PendingService, ToolLoopService } from '@toolloop/core';
import { transform } from '@swc/core';

interface Files {
  read(path: string): string | undefined;
  write(path: string, text: string): void;
}
interface Answer {
  readonly said: readonly string[];
  readonly isInstall: boolean;
}
interface Options {
  readonly sourceRoot?: string;
  readonly name?: string;
  readonly spec?: boolean;
}

/** The schematics as the command line of Nest runs them, on files in memory. */
const SCHEMATICS = join(process.cwd(), 'libs/core/schematics');
const { addToolloop, upgradeToolloop } = (await import(
  pathToFileURL(join(SCHEMATICS, 'add.mjs')).href
)) as Record<'addToolloop' | 'upgradeToolloop', (files: Files, options: Options) => Answer>;
const { generate } = (await import(pathToFileURL(join(SCHEMATICS, 'generate.mjs')).href)) as {
  readonly generate: (kind: string, files: Files, options: Options) => Answer;
};

const APP_MODULE = `import { Module } from '@nestjs/common';
import { AppController } from './app.controller.js';

@Module({
  imports: [],
  controllers: [AppController],
})
export class AppModule {}
`;

/** The part that matters of what \`nest new\` writes. */
class Project implements Files {
  readonly texts = new Map<string, string>();

  constructor(
    module: string | undefined = APP_MODULE,
    nest = '^12.0.1',
    more: object = { type: 'module' },
  ) {
    this.write(
      'package.json',
      JSON.stringify({ name: 'app', ...more, dependencies: { '@nestjs/core': nest } }),
    );
    if (module !== undefined) this.write('src/app.module.ts', module);
  }

  read(path: string): string | undefined {
    return this.texts.get(path);
  }

  write(path: string, text: string): void {
    this.texts.set(path, text);
  }

  text(path: string): string {
    return this.texts.get(path) ?? '';
  }
}

describe('nest add', () => {
  it('adds an assistant, its packages and its module, and says where the console is', () => {
    const project = new Project();
    const { said, isInstall } = addToolloop(project, {});
    expect([isInstall, said]).toEqual([true, [expect.stringContaining('npm run start:dev')]]);
    expect(said[0]).toContain('/console');
    expect(
      [...project.texts.keys()].filter((path) => path.startsWith('src/assistant/')),
    ).toHaveLength(7);
    expect(project.text('src/app.module.ts')).toContain('imports: [AssistantModule],');
    expect(project.text('src/app.module.ts')).toContain(
      "import { AssistantModule } from './assistant/assistant.module.js';",
    );
    expect(
      Object.keys(
        (JSON.parse(project.text('package.json')) as { dependencies: object }).dependencies,
      ),
    ).toContain('@toolloop/console');
    expect(project.text('AGENTS.md')).toContain('@LlmTool()');
  });

  it('changes nothing where it is run again, also where files were changed since', () => {
    const project = new Project();
    addToolloop(project, {});
    project.write('src/assistant/policy.ts', 'export const policy = { allow: [] };\n');
    const before = new Map(project.texts);
    expect(addToolloop(project, {})).toEqual({
      said: ['Toolloop is there already. Nothing was changed.'],
      isInstall: false,
    });
    expect(project.texts).toEqual(before);
  });

  it('imports without an extension where the project is CommonJS', () => {
    const project = new Project(APP_MODULE.replaceAll('.js', ''), '^12.0.1', {});
    addToolloop(project, {});
    expect([...project.texts.values()].join('\n')).not.toMatch(/from '\.[^']*\.js'/);
  });

  it.each([
    [
      'other imports',
      '@Module({ imports: [A, B.forRoot({ list: [1] })], controllers: [] })',
      'imports: [AssistantModule, A, B.forRoot',
    ],
    [
      'no imports',
      '@Module({\n  controllers: [A],\n})',
      '@Module({\n  imports: [AssistantModule],\n  controllers: [A],',
    ],
    ['an empty module', '@Module({})', 'imports: [AssistantModule],'],
    [
      'imports of something else before its own',
      "@Module({ providers: [{ imports: [1], at: 'imports: [' }], imports: [A] })",
      ', imports: [AssistantModule, A]',
    ],
  ])('finds its place in a module with %s', (_what, decorator, expected) => {
    const project = new Project(
      `import { Module } from '@nestjs/common';\n\n${decorator}\nexport class AppModule {}\n`,
    );
    addToolloop(project, {});
    expect(project.text('src/app.module.ts')).toContain(expected);
  });

  it('reads the sources of another project of a monorepo', () => {
    const project = new Project(undefined);
    project.write('apps/desk/src/app.module.ts', APP_MODULE);
    addToolloop(project, { sourceRoot: 'apps/desk/src' });
    expect(project.text('apps/desk/src/app.module.ts')).toContain('imports: [AssistantModule]');
  });

  it.each([
    [
      'a monorepo',
      "import { NestFactory } from '@nestjs/core';\nimport { DeskModule } from './desk.module.js';\n\nvoid NestFactory.create(DeskModule);\n",
    ],
    [
      'options of its platform',
      "import { a, DeskModule } from './desk.module';\nconst app = await NestFactory.create<NestExpressApplication>(\n  DeskModule, {});\n",
    ],
  ])('finds the module that main.ts of an application starts, with %s', (_what, main) => {
    const project = new Project(undefined);
    project.write('apps/desk/src/desk.module.ts', APP_MODULE);
    project.write('apps/desk/src/main.ts', main);
    addToolloop(project, { sourceRoot: 'apps/desk/src' });
    expect(project.text('apps/desk/src/desk.module.ts')).toContain('imports: [AssistantModule]');
  });

  it.each([
    [
      'an older Nest',
      new Project(APP_MODULE, '^11.1.0'),
      'Toolloop needs NestJS 12 or newer, and this project has ^11.1.0. Install @nestjs/cli@12 and @nestjs/schematics@12 (npm wants --force for it), and run "npx nest upgrade" first.',
    ],
    ['no module of the application', new Project(''), 'has no class with @Module({ … })'],
    ['no Nest', { read: () => '{}', write: () => undefined }, 'This is no Nest application'],
    [
      'no project',
      { read: () => undefined, write: () => undefined },
      'There is no package.json here',
    ],
  ])('refuses %s, and says what to do', (_what, project, expected) => {
    expect(() => addToolloop(project, {})).toThrow(expected);
  });

  it('refuses sources without app.module.ts', () => {
    expect(() => addToolloop(new Project(), { sourceRoot: 'app' })).toThrow(
      'There is no app/app.module.ts',
    );
  });
});

interface Task {
  toConfiguration(): {
    readonly options: { readonly packageManager: string; readonly packageName?: string };
  };
}

describe('the install after nest add', () => {
  it.each([
    ['package-lock.json', 'npm', undefined],
    ['pnpm-lock.yaml', 'pnpm', '--no-frozen-lockfile'],
  ])('changes %s by %s, where CI is set as well', async (lock, packageManager, packageName) => {
    const { nestAdd } = (await import(pathToFileURL(join(SCHEMATICS, 'schematics.mjs')).href)) as {
      readonly nestAdd: (options: Options) => (tree: object, context: object) => void;
    };
    const project = new Project();
    project.write(lock, '');
    const tree = {
      read: (path: string) => (project.texts.has(path) ? Buffer.from(project.text(path)) : null),
      exists: (path: string) => project.texts.has(path),
      overwrite: (path: string, text: string) => project.write(path, text),
      create: (path: string, text: string) => project.write(path, text),
    };
    const tasks: Task[] = [];
    nestAdd({})(tree, {
      logger: { info: () => undefined },
      addTask: (task: Task) => tasks.push(task),
    });
    expect(tasks.map((task) => task.toConfiguration().options)).toEqual([
      expect.objectContaining({ packageManager }),
    ]);
    expect(tasks[0]?.toConfiguration().options.packageName).toBe(packageName);
  });
});

/**
 * The versions of MikroORM that a resource brings to an application that has some packages, and of
 * the driver that it names.
 */
function versionsOfOrm(installed: object): readonly unknown[] {
  const project = new Project();
  project.write(
    'package.json',
    JSON.stringify({ dependencies: { '@nestjs/core': '^12.0.0', ...installed } }),
  );
  const { said } = generate('resource', project, { name: 'product' });
  const { dependencies } = JSON.parse(project.text('package.json')) as {
    readonly dependencies: Record<string, string>;
  };
  return [
    ...['core', 'decorators', 'sql'].map((name) => dependencies[`@mikro-orm/${name}`]),
    / (@mikro-orm\/\S+)\.$/.exec(said.join())?.[1],
  ];
}

describe('nest generate and nest upgrade', () => {
  it('creates a tool with its test, and provides it in the nearest module', () => {
    const project = new Project();
    project.write('src/crm/crm.module.ts', APP_MODULE);
    expect(generate('tool', project, { name: 'crm/customerCard' }).said).toEqual([
      "Allow it in your policy: allow: ['customer_card__*'].",
    ]);
    expect(project.text('src/crm/crm.module.ts')).toContain(
      "import { CustomerCardTools } from './customer-card/customer-card.tools.js';",
    );
    expect(project.text('src/crm/crm.module.ts')).toContain('providers: [CustomerCardTools]');
    expect(project.text('src/app.module.ts')).toBe(APP_MODULE);
    expect(project.texts.has('src/crm/customer-card/customer-card.tools.spec.ts')).toBe(true);
  });

  it('writes no test where none is wanted, and replaces no file', () => {
    const project = new Project();
    generate('tool', project, { name: 'weather', spec: false });
    expect([...project.texts.keys()].filter((path) => path.includes('.spec.'))).toEqual([]);
    expect(() => generate('tool', project, { name: 'weather', spec: false })).toThrow(
      'src/weather has the files of a tool already.',
    );
    expect(() => generate('tool', project, { name: '../etc' })).toThrow('"../etc" is no name');
    expect(() => generate('tool', project, { name: 'a b' })).toThrow('is no name');
    expect(() => generate('tool', project, {})).toThrow('A name is missing');
  });

  it('takes all packages of MikroORM in one version: that of the application, or the one that is tested here', () => {
    const { dependencies: own } = JSON.parse(readFileSync('package.json', 'utf8')) as {
      readonly dependencies: Record<string, string>;
    };
    const tested = own['@mikro-orm/core'] ?? 'none';
    expect(versionsOfOrm({})).toEqual([tested, tested, tested, `@mikro-orm/postgresql@${tested}`]);
    expect(versionsOfOrm({ '@mikro-orm/core': '~7.3.0' })).toEqual([
      '~7.3.0',
      '~7.3.0',
      '~7.3.0',
      '@mikro-orm/postgresql@~7.3.0',
    ]);
  });

  it('brings all packages of Toolloop to one version', () => {
    const project = new Project();
    const { version } = JSON.parse(readFileSync('libs/core/package.json', 'utf8')) as {
      readonly version: string;
    };
    const devDependencies = { toolloop: '0.0.1-old', jest: '^30.0.0' };
    project.write(
      'package.json',
      JSON.stringify({
        dependencies: { '@nestjs/core': '^12.0.0', '@toolloop/mcp': '^0.0.1-old' },
        devDependencies,
      }),
    );
    expect(upgradeToolloop(project, {})).toMatchObject({ isInstall: true });
    expect(JSON.parse(project.text('package.json'))).toMatchObject({
      dependencies: { '@toolloop/mcp': `^${version}` },
      devDependencies: { toolloop: `^${version}`, jest: '^30.0.0' },
    });
    expect(upgradeToolloop(project, {}).isInstall).toBe(false);
  });
});

describe('what the schematics write', () => {
  /** Below the packages, so that it finds those of this repository. */
  const folder = join(
    process.cwd(),
    'node_modules/.cache/toolloop-schematics',
    String(process.pid),
  );
  const project = new Project();
  let app: INestApplication;
  let loop: ToolLoopService;

  beforeAll(async () => {
    addToolloop(project, {});
    generate('tool', project, { name: 'weather', spec: false });
    generate('entity', project, { name: 'card' });
    generate('resource', project, { name: 'product' });
    const swc = JSON.parse(readFileSync('.swcrc', 'utf8')) as object;
    for (const [path, text] of project.texts) {
      const file = join(folder, path);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, text);
      if (!path.endsWith('.ts')) continue;
      const { code } = await transform(text, { ...swc, swcrc: false, sourceMaps: false });
      writeFileSync(file.replace(/\.ts$/, '.js'), code);
    }
    const from = pathToFileURL(join(folder, 'src/assistant/assistant.module.js')).href;
    const { AssistantModule } = (await import(from)) as { readonly AssistantModule: Type };
    app = (
      await Test.createTestingModule({ imports: [AssistantModule] }).compile()
    ).createNestApplication();
    app.useLogger(false);
    await app.init();
    loop = app.get(ToolLoopService);
  });
  afterAll(async () => {
    await app.close();
    rmSync(folder, { recursive: true });
  });

  const ask = (prompt: string): Promise<LoopResult> =>
    loop.run({ actor: { id: 'you' }, tenant: 'demo', prompt });

  it('compiles', () => {
    const sources = [...project.texts.keys()].filter(
      (path) => path.endsWith('.ts') && !path.endsWith('.spec.ts') && path !== 'src/app.module.ts',
    );
    const compilerOptions = { noEmit: true, strictPropertyInitialization: false };
    writeFileSync(
      join(folder, 'tsconfig.json'),
      JSON.stringify({
        extends: join(process.cwd(), 'tsconfig.base.json'),
        compilerOptions,
        files: sources,
      }),
    );
    const { stdout } = spawnSync(
      process.execPath,
      ['node_modules/@typescript/native/bin/tsc', '-p', folder],
      { encoding: 'utf8' },
    );
    expect(stdout).toBe('');
  });

  it('answers without a key, and asks a person before it refunds', async () => {
    const found = await ask('Find the orders of Ada Lovelace');
    expect([found.toolCalls.map(({ id }) => id), found.injectedTools.map(({ id }) => id)]).toEqual([
      ['orders__find'],
      ['order_o-1_refund'],
    ]);
    const refund = await ask('Refund the order o-1 of Ada Lovelace');
    expect([refund.finishReason, refund.waitingFor]).toEqual(['waiting', 'approval']);
    const [asked] = await app.get(PendingService).list({ actor: { id: 'you' }, tenant: 'demo' });
    expect(asked?.preview?.sentence).toBe('Ada Lovelace gets 90 back for the order o-1.');
  });
});

describe('who may ask what nest add wrote', () => {
  it('is its developer by a token of the environment, and no one without one or in production', async () => {
    const project = new Project();
    addToolloop(project, {});
    const { code } = await transform(project.text('src/assistant/identity.ts'), {
      jsc: { parser: { syntax: 'typescript' } },
      swcrc: false,
    });
    const file = join(process.cwd(), 'node_modules/.cache', `toolloop-identity-${process.pid}.mjs`);
    writeFileSync(file, code);
    const { identity } = (await import(pathToFileURL(file).href)) as {
      readonly identity: (request: object) => unknown;
    };
    rmSync(file);
    const asked = (authorization?: string): unknown => identity({ headers: { authorization } });
    const { NODE_ENV, DEV_TOKEN } = process.env;
    delete process.env['DEV_TOKEN'];
    expect([asked(), asked('Bearer '), asked('Bearer undefined')]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    process.env['DEV_TOKEN'] = 'dev';
    expect([asked('Bearer dev'), asked('Bearer other'), asked()]).toEqual([
      { actor: { id: 'you' }, tenant: 'demo' },
      undefined,
      undefined,
    ]);
    process.env['NODE_ENV'] = 'production';
    expect(asked('Bearer dev')).toBeUndefined();
    delete process.env['DEV_TOKEN'];
    Object.assign(process.env, { NODE_ENV, ...(DEV_TOKEN !== undefined && { DEV_TOKEN }) });
  });
});

describe('the package of core', () => {
  it('has the schematics and their templates among its files', () => {
    const manifest = JSON.parse(readFileSync('libs/core/package.json', 'utf8')) as {
      readonly schematics: string;
      readonly files: readonly string[];
    };
    expect(manifest.files).toContain('schematics');
    expect(existsSync(join('libs/core', manifest.schematics))).toBe(true);
  });
});
