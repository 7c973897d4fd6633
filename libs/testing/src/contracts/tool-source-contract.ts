import assert from 'node:assert/strict';
import { setTimeout as wait } from 'node:timers/promises';
import { Test } from '@nestjs/testing';
import {
  type JsonObject,
  type Policy,
  ToolCatalog,
  ToolLoopModule,
  ToolLoopService,
  type ToolSource,
} from '@toolloop/core';
import { canonicalDeclaration } from '@toolloop/core/internal';
import { type SourceTool, ToolSources } from '@toolloop/core/sources';
import { ScriptedModel } from '../scripted-model.js';
import type { ContractRunner } from './contract.js';

/**
 * The behaviour that every `ToolSource` must show, by itself and within an application. Each check
 * has a source of its own.
 *
 * @example
 * toolSourceContract(
 *   'of GitHub',
 *   async () => ({
 *     source: new GithubTools(await server()),
 *     policy: { allow: ['github__*'] },
 *     call,
 *   }),
 *   { describe, it, beforeAll, afterAll },
 * );
 */
export function toolSourceContract(
  name: string,
  make: () => Promise<ToolSourceUnderTest>,
  { describe, it }: Pick<ContractRunner, 'describe' | 'it'>,
): void {
  const within = async (check: (made: ToolSourceUnderTest) => Promise<void>): Promise<void> => {
    const made = await make();
    try {
      await check(made);
    } finally {
      await made.close?.();
    }
  };
  describe(`ToolSource ${name}`, () => {
    for (const [sentence, check] of CASES) it(sentence, () => within(check));
  });
}

/** A source of tools whose server answers. */
export interface ToolSourceUnderTest {
  readonly source: ToolSource;
  /**
   * The policy under which its tools are in the catalog; that of a source that is not trusted names
   * them.
   */
  readonly policy: Policy;
  /** A call that succeeds and that may be repeated. */
  readonly call: { readonly tool: string; readonly args: JsonObject };
  /**
   * Changes what the source offers: one tool more. @default the source never changes, and the
   * checks of changes are left out
   */
  readonly change?: () => void | Promise<void>;
  readonly close?: () => Promise<void>;
}

const CASES: readonly (readonly [
  name: string,
  check: (made: ToolSourceUnderTest) => Promise<void>,
])[] = [
  ['has a name, which stays', isNamed],
  ['gives each tool an id of its own, below its prefix', hasIds],
  ['gives equal definitions when it is asked again', isSteady],
  ['ends its answer when it is aborted', endsWhenAborted],
  ['has all of its tools in the catalog of an application', isInCatalog],
  ['has a call of its tools made through the pipeline', isCalled],
  ['tells a change, and offers other tools then', tellsChange],
  ['has a new tool in the catalog once it has told the change', joinsCatalog],
];

const LONG_MS = 10_000;
const never = (): AbortSignal => new AbortController().signal;

async function idsOf(source: ToolSource): Promise<readonly string[]> {
  return (await source.tools(never())).map(idOf);
}

function idOf(tool: SourceTool): string {
  return 'refused' in tool ? tool.id : tool.spec.id;
}

function isNamed({ source }: ToolSourceUnderTest): Promise<void> {
  assert.match(source.origin.source, /\S/);
  assert.deepEqual({ ...source.origin }, { ...source.origin });
  if (source.prefix !== undefined) assert.match(source.prefix, /^[\w-]{1,32}$/);
  return Promise.resolve();
}

async function hasIds({ source }: ToolSourceUnderTest): Promise<void> {
  const ids = await idsOf(source);
  assert.ok(ids.length > 0, 'The source has no tools.');
  assert.equal(new Set(ids).size, ids.length, `Two tools have one id: ${ids.join(', ')}`);
  for (const id of ids) {
    assert.match(id, /^[a-zA-Z0-9_-]{1,64}$/);
    if (source.prefix !== undefined)
      assert.ok(id.startsWith(`${source.prefix}__`), `${id} is not below ${source.prefix}__.`);
  }
}

async function isSteady({ source }: ToolSourceUnderTest): Promise<void> {
  const definitions = async (): Promise<readonly string[]> =>
    (await source.tools(never())).map((tool) =>
      canonicalDeclaration('refused' in tool ? tool : tool.spec),
    );
  assert.deepEqual(await definitions(), await definitions());
}

async function endsWhenAborted({ source }: ToolSourceUnderTest): Promise<void> {
  const over = new AbortController();
  const answer = Promise.resolve(source.tools(over.signal)).then(
    () => true,
    () => true,
  );
  over.abort();
  assert.equal(
    await Promise.race([answer, wait(LONG_MS, false, { ref: false })]),
    true,
    'An aborted answer did not end within ten seconds.',
  );
}

interface Application {
  readonly loop: ToolLoopService;
  readonly catalog: ToolCatalog;
  readonly sources: ToolSources;
}

async function inApplication(
  { source, policy }: ToolSourceUnderTest,
  check: (app: Application) => Promise<void>,
): Promise<void> {
  const app = await Test.createTestingModule({
    imports: [
      ToolLoopModule.forRoot({
        model: new ScriptedModel([]),
        policy,
        sources: { pauseMs: 10, longestPauseMs: 50 },
      }),
    ],
    providers: [{ provide: Symbol('source'), useValue: source }],
  }).compile();
  app.useLogger(false);
  await app.init();
  try {
    await check({
      loop: app.get(ToolLoopService),
      catalog: app.get(ToolCatalog),
      sources: app.get(ToolSources),
    });
  } finally {
    await app.close();
  }
}

async function isInCatalog(made: ToolSourceUnderTest): Promise<void> {
  await inApplication(made, async ({ catalog, sources }) => {
    const status = sources.list().find(({ source }) => source === made.source.origin.source);
    assert.deepEqual([status?.state, status?.quarantined], ['ready', []]);
    const listed = new Set(catalog.list().map(({ id }) => id));
    const offered = (await made.source.tools(never()))
      .filter((tool) => !('refused' in tool))
      .map(idOf);
    assert.deepEqual(
      offered.filter((id) => !listed.has(id)),
      [],
    );
  });
}

async function isCalled(made: ToolSourceUnderTest): Promise<void> {
  await inApplication(made, async ({ loop }) => {
    const { record } = await loop.call({ ...made.call, actor: { id: 'ann' }, tenant: 'acme' });
    assert.equal(record.status, 'succeeded', record.error?.safeMessage);
  });
}

async function tellsChange({ source, change }: ToolSourceUnderTest): Promise<void> {
  if (!change) return;
  const before = await idsOf(source);
  let isTold = false;
  const watching = source.changes$?.subscribe(() => (isTold = true));
  try {
    await change();
    await until(() => isTold, 'The source told no change.');
  } finally {
    watching?.unsubscribe();
  }
  const after = await idsOf(source);
  assert.ok(after.length > before.length, 'The source offers no tool more after its change.');
}

async function joinsCatalog(made: ToolSourceUnderTest): Promise<void> {
  const { source, change } = made;
  if (!change) return;
  await inApplication(made, async ({ sources }) => {
    const known = (): number => {
      const status = sources.list().find((one) => one.source === source.origin.source);
      return (status?.tools.length ?? 0) + (status?.quarantined.length ?? 0);
    };
    const before = known();
    await change();
    await until(() => known() > before, 'The catalog did not look at the new tool.');
  });
}

async function until(holds: () => boolean, complaint: string): Promise<void> {
  for (const end = Date.now() + LONG_MS; !holds(); await wait(5))
    assert.ok(Date.now() < end, complaint);
}
