import { describe, expect, it } from '@jest/globals';
import { Inject, Injectable, Scope } from '@nestjs/common';
import { REQUEST } from '@nestjs/core';
import { LlmTool, type RunContext, tool, ToolParam, ToolProvider } from '@toolloop/core';
import { AuditStore } from '@toolloop/core/stores';
import { atOnce } from '../fixtures/time.js';
import { Toolset } from '../../src/catalog/toolset.js';
import { Bench, errorOf } from './bench.js';

const KEY = { description: 'x', type: 'string' } as const;
const done: string[] = [];

type Hook = (run: RunContext) => unknown;

/** What a hook says is in the context of the run. */
const asTold = (run: RunContext): boolean => (run.context['hook'] as Hook)(run) as boolean;

@Injectable()
@ToolProvider({ namespace: 'desk' })
class DeskTools {
  private readonly open = new Set(['acme']);

  @LlmTool({ description: 'Writes.', effect: 'state_change', reveal: 'all', canCall: asTold })
  write(@ToolParam('key', KEY) key: string): string {
    done.push(key);
    return key;
  }

  @LlmTool({
    description: 'Closes.',
    effect: 'state_change',
    reveal: 'all',
    canCall: 'mayClose',
    timeoutMs: 50,
  })
  close(): string {
    done.push('close');
    return 'closed';
  }

  mayClose({ tenant }: RunContext): Promise<boolean> {
    return Promise.resolve(this.open.has(tenant));
  }

  @LlmTool({ description: 'Reads.', effect: 'read_only', reveal: 'all' })
  read(): string {
    return 'read';
  }
}

@Injectable({ scope: Scope.REQUEST })
@ToolProvider({ namespace: 'mine' })
class MyTools {
  constructor(@Inject(REQUEST) private readonly run: RunContext) {}

  @LlmTool({ description: 'Says whose.', effect: 'read_only', reveal: 'all', canCall: 'isAcme' })
  whose(): string {
    return this.run.tenant;
  }

  isAcme(): boolean {
    return this.run.tenant === 'acme';
  }
}

async function desk(): Promise<Bench> {
  done.length = 0;
  return Bench.start({
    providers: [DeskTools, MyTools],
    options: { audit: { key: 'k'.repeat(32) } },
  });
}

const saying = (hook: Hook) => ({ context: { hook } });
const never = (): Promise<never> => new Promise(() => undefined);

describe('a tool with a hook', () => {
  it('is called where the hook says true', async () => {
    const { record } = await (
      await desk()
    )
      .run(saying(() => true))
      .exec('desk__write', { key: 'a' });
    expect([record.status, done]).toEqual(['succeeded', ['a']]);
  });

  it.each<[string, Hook]>([
    ['says false', () => false],
    ['says so later', () => Promise.resolve(false)],
    ['says something else', () => 'yes'],
    ['says nothing', () => undefined],
    [
      'throws',
      () => {
        throw new Error('no');
      },
    ],
    ['rejects', () => Promise.reject(new Error('no'))],
    ['never answers', never],
  ])('is not called where the hook %s', async (_, hook) => {
    const run = (await desk()).run({ ...saying(hook), limits: { toolCallMs: 30 } });
    const outcome = await run.exec('desk__write', { key: 'a' });
    expect(outcome.record).toMatchObject({
      status: 'denied',
      error: { code: 'policy_denied' },
      decision: { kind: 'deny', rule: 'canCall' },
    });
    expect(done).toEqual([]);
  });

  it('reads like one that does not exist, whatever its arguments are', async () => {
    const bench = await desk();
    const run = bench.run(saying(() => false));
    const without = bench.run({
      ...saying(() => true),
      toolset: Toolset.of(bench.catalog.build({ exclude: ['desk__write'] })),
    });
    const { content: missing } = await without.exec('desk__write');
    for (const args of [{ key: 'a' }, {}, 'no json', { tenant: 'globex' }]) {
      const outcome = await run.exec('desk__write', args);
      expect(outcome.content).toBe(missing);
      expect(errorOf(outcome).code).toBe('unknown_tool');
      expect(outcome.record.args).toBeUndefined();
    }
  });

  it('is never suggested in its own place', async () => {
    const { content } = await (
      await desk()
    )
      .run(saying(() => false))
      .exec('desk__write', { key: 'a' });
    expect(content).not.toContain('Did you mean \\"desk__write\\"');
  });

  it('is not asked where policy denies', async () => {
    let asked = 0;
    const run = (await desk()).run({
      ...saying(() => (asked += 1) > 0),
      policies: [{ allow: ['desk__read'] }],
    });
    expect((await run.exec('desk__write', { key: 'a' })).record.decision).toMatchObject({
      rule: 'default',
    });
    expect(asked).toBe(0);
  });

  it('is asked at every call', async () => {
    const answers = [true, false, true];
    const run = (await desk()).run(saying(() => answers.shift()));
    const outcomes = [
      await run.exec('desk__write', { key: 'a' }),
      await run.exec('desk__write', { key: 'b' }),
      await run.exec('desk__write', { key: 'c' }),
    ];
    expect(outcomes.map(({ record }) => record.status)).toEqual([
      'succeeded',
      'denied',
      'succeeded',
    ]);
    expect(done).toEqual(['a', 'c']);
  });

  it('has the denial in the audit, under its own name', async () => {
    const bench = await desk();
    await bench.run(saying(() => false)).exec('desk__write', { key: 'a' });
    const entries = await bench.module.get(AuditStore).read('acme', { from: 1, limit: 10 });
    expect(entries).toMatchObject([
      { kind: 'decision', declaredId: 'desk__write', decision: { kind: 'deny', rule: 'canCall' } },
      { kind: 'denied', code: 'policy_denied' },
    ]);
  });

  it('is logged where its hook fails, and the model reads nothing of it', async () => {
    const bench = await desk();
    const { content } = await bench
      .run(saying(() => Promise.reject(new Error('secret of the hook'))))
      .exec('desk__write', { key: 'a' });
    expect(content).not.toContain('secret');
    expect(bench.logger.errors().map(({ message }) => message)).toEqual([
      expect.stringContaining('The canCall of desk__write failed'),
    ]);
  });

  it('invariant 11: does not keep a run from ending', async () => {
    const abort = new AbortController();
    const run = (await desk()).run({ ...saying(never), signal: abort.signal });
    const calling = run.exec('desk__write', { key: 'a' });
    abort.abort();
    expect((await atOnce(calling)).record.error?.code).toBe('aborted');
  });
});

describe('a hook that is a method', () => {
  it('is called on the same instance, for the tenant of the run', async () => {
    const bench = await desk();
    const by = async (tenant: string) =>
      (await bench.run({ tenant }).exec('desk__close')).record.status;
    expect([await by('acme'), await by('globex'), await by('acme')]).toEqual([
      'succeeded',
      'denied',
      'succeeded',
    ]);
  });

  it('is called on the instance of the run where there is one per run', async () => {
    const bench = await desk();
    const outcomes = await Promise.all(
      ['acme', 'globex', 'acme', 'globex'].map((tenant) =>
        bench.run({ tenant, runId: tenant }).exec('mine__whose'),
      ),
    );
    expect(outcomes.map(({ record }) => record.status)).toEqual([
      'succeeded',
      'denied',
      'succeeded',
      'denied',
    ]);
  });
});

describe('a raw tool with a hook', () => {
  it('is called for those it lets in', async () => {
    const raw = tool({
      id: 'raw_run',
      description: 'Runs.',
      effect: 'read_only',
      reveal: 'all',
      canCall: ({ tenant }) => tenant === 'acme',
      execute: () => 'ran',
    });
    const bench = await Bench.start({ options: { tools: [raw] } });
    expect((await bench.run().exec('raw_run')).content).toBe('ran');
    expect((await bench.run({ tenant: 'globex' }).exec('raw_run')).record.error?.code).toBe(
      'policy_denied',
    );
  });
});

describe('a tool with a hook that is not in the toolset', () => {
  it('invariant 2: is recorded as denied where the hook would deny it, and as unknown where it would not', async () => {
    const bench = await desk();
    const by = async (answer: boolean) =>
      (
        await bench
          .run({ ...saying(() => answer), toolset: Toolset.of([]) })
          .exec('desk__write', { key: 'a' })
      ).record.error?.code;
    expect([await by(false), await by(true)]).toEqual(['policy_denied', 'unknown_tool']);
  });
});
