import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import {
  LlmTool,
  tool,
  type ToolCallContext,
  ToolContext,
  ToolError,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import { AuditStore } from '@toolloop/core/stores';
import { atOnce } from '../../fixtures/time.js';
import { Bench, errorOf } from '../../call/bench.js';

const KEY = { description: 'x', type: 'string' } as const;
const OWN_ROWS = {
  rule: 'notes: own rows',
  reason: 'The note belongs to another user.',
  version: 'notes-3',
};
const done: string[] = [];

type Preflight = (input: { key: string }, context: ToolCallContext) => unknown;

@Injectable()
@ToolProvider({ namespace: 'notes' })
class NoteTools {
  private readonly owner = 'acme';

  @LlmTool({
    description: 'Deletes a note.',
    effect: 'state_change',
    reveal: 'all',
    preflight: 'mayDelete',
  })
  delete(@ToolParam('key', KEY) key: string): string {
    done.push(key);
    return key;
  }

  mayDelete(input: { key: string }, context: ToolCallContext): unknown {
    const asked = context.context['preflight'] as Preflight | undefined;
    return asked ? asked(input, context) : context.tenant === this.owner;
  }

  @LlmTool({ description: 'Reads notes.', effect: 'read_only', reveal: 'all' })
  read(@ToolContext() { tenant }: ToolCallContext): string {
    return tenant;
  }
}

async function notes(): Promise<Bench> {
  done.length = 0;
  return Bench.start({ providers: [NoteTools], options: { audit: { key: 'k'.repeat(32) } } });
}

const asking = (preflight: Preflight) => ({ context: { preflight } });

const swapping: Preflight = (input) => {
  input.key = 'swapped';
  return true;
};
const finding: Preflight = () => {
  throw new ToolError('There is no such note.', {
    problems: [{ pointer: '/key', message: 'There is no note "a".' }],
  });
};
const raw = (id: string, hooks: object) =>
  tool<{ key: string }>({
    id,
    description: 'Runs.',
    effect: 'state_change',
    reveal: 'all',
    input: { type: 'object', properties: { key: { type: 'string' } }, required: ['key'] },
    execute: ({ key }) => done.push(key),
    ...hooks,
  });

describe('a tool with a preflight', () => {
  it('is called where the preflight says true, which is asked on the same instance and for the tenant of the run', async () => {
    const bench = await notes();
    const by = async (tenant: string) =>
      (await bench.run({ tenant }).exec('notes__delete', { key: tenant })).record.status;
    expect([await by('acme'), await by('globex')]).toEqual(['succeeded', 'denied']);
    expect(done).toEqual(['acme']);
  });

  it.each<[string, Preflight]>([
    ['says false', () => false],
    ['says something else', () => 'yes'],
    ['says nothing', () => undefined],
    ['names a rule and no reason', () => ({ rule: 'x' })],
  ])('is denied where the preflight %s', async (_, preflight) => {
    const { record } = await (
      await notes()
    )
      .run(asking(preflight))
      .exec('notes__delete', { key: 'a' });
    expect(record).toMatchObject({
      status: 'denied',
      error: { code: 'policy_denied' },
      decision: { kind: 'deny', rule: 'preflight' },
    });
    expect(done).toEqual([]);
  });

  it('has the rule and the version of a refusal in its record and in the audit, and tells the model nothing of them', async () => {
    const bench = await notes();
    const { record, content } = await bench
      .run(asking(() => OWN_ROWS))
      .exec('notes__delete', { key: 'a' });
    const decision = {
      kind: 'deny',
      rule: OWN_ROWS.rule,
      reason: OWN_ROWS.reason,
      policyVersion: 'notes-3',
    };
    expect(record.decision).toEqual(decision);
    expect(content).toContain('unknown_tool');
    expect(content).not.toContain('own rows');
    expect(content).not.toContain('another user');
    expect(await bench.module.get(AuditStore).read('acme', { from: 1, limit: 10 })).toMatchObject([
      { kind: 'decision', decision },
      { kind: 'denied' },
    ]);
  });

  it('is handed a copy of the input, which cannot change what the method receives', async () => {
    await (await notes()).run(asking(swapping)).exec('notes__delete', { key: 'a' });
    expect(done).toEqual(['a']);
  });

  it('is not asked where policy denies, nor about arguments that are wrong', async () => {
    let asked = 0;
    const preflight = asking(() => (asked += 1) > 0);
    const bench = await notes();
    await bench
      .run({ ...preflight, policies: [{ allow: ['notes__read'] }] })
      .exec('notes__delete', { key: 'a' });
    await bench.run(preflight).exec('notes__delete', { key: 5 });
    expect(asked).toBe(0);
  });

  it('fails with the words of a ToolError that the preflight throws, and with a pointer to each argument that it names', async () => {
    const outcome = await (await notes()).run(asking(finding)).exec('notes__delete', { key: 'a' });
    expect(errorOf(outcome)).toMatchObject({
      status: '400',
      code: 'invalid_args',
      detail: 'There is no note "a".',
      source: { pointer: '/key' },
    });
    expect(done).toEqual([]);
  });

  it('fails without a word of an exception, and is not called', async () => {
    const outcome = await (
      await notes()
    )
      .run(asking(() => Promise.reject(new Error('secret of the database'))))
      .exec('notes__delete', { key: 'a' });
    expect(outcome.record.error?.code).toBe('execution_failed');
    expect(outcome.content).not.toContain('secret');
    expect(done).toEqual([]);
  });

  it('has the time of the call, and keeps no run from ending', async () => {
    const bench = await notes();
    const never = asking(() => new Promise(() => undefined));
    expect(
      (
        await bench
          .run({ ...never, limits: { toolCallMs: 30 } })
          .exec('notes__delete', { key: 'a' })
      ).record.error?.code,
    ).toBe('timeout');
    const abort = new AbortController();
    const calling = bench
      .run({ ...never, signal: abort.signal })
      .exec('notes__delete', { key: 'a' });
    abort.abort();
    expect((await atOnce(calling)).record.error?.code).toBe('aborted');
    expect(done).toEqual([]);
  });

  it('counts against a budget that parallel calls share', async () => {
    const run = (await notes()).run({
      ...asking(() => Promise.resolve(true)),
      policies: [{ allow: ['*'], runBudgets: [{ tools: ['notes__delete'], calls: 1 }] }],
    });
    const outcomes = await Promise.all(
      ['a', 'b', 'c'].map((key) => run.exec('notes__delete', { key })),
    );
    expect(
      outcomes.map(({ record }) => record.status).filter((status) => status === 'succeeded'),
    ).toHaveLength(1);
  });
});

describe('a raw tool with a preflight', () => {
  it('is denied by the rule that its canCall or its preflight names', async () => {
    const tools = [
      raw('raw_preflight', { preflight: ({ key }: { key: string }) => key === 'a' || OWN_ROWS }),
      raw('raw_hook', { canCall: () => OWN_ROWS }),
    ];
    const run = (await Bench.start({ options: { tools } })).run();
    const decisionOn = async (id: string, key: string) =>
      (await run.exec(id, { key })).record.decision;
    expect(await decisionOn('raw_preflight', 'a')).toMatchObject({ kind: 'allow' });
    expect(await decisionOn('raw_preflight', 'b')).toMatchObject({
      kind: 'deny',
      rule: 'notes: own rows',
      policyVersion: 'notes-3',
    });
    expect(await decisionOn('raw_hook', 'a')).toMatchObject({
      kind: 'deny',
      rule: 'notes: own rows',
      policyVersion: 'notes-3',
    });
  });
});

describe('a preflight that names no method', () => {
  it('keeps the application from starting', async () => {
    @Injectable()
    @ToolProvider({ namespace: 'odd' })
    class OddTools {
      @LlmTool({ description: 'Odd.', effect: 'read_only', reveal: 'all', preflight: 'mayReed' })
      read(): string {
        return 'read';
      }

      mayRead(): boolean {
        return true;
      }
    }
    await expect(Bench.start({ providers: [OddTools] })).rejects.toThrow(
      /preflight names "mayReed".*\n.*mayRead/,
    );
  });
});
