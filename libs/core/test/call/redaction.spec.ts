import { describe, expect, it } from '@jest/globals';
import { LlmTool, ToolProvider } from '@toolloop/core';
import type { LoopEventBody } from '@toolloop/protocol';
import { Expose, Transform } from 'class-transformer';
import { toolOf } from '../tools/tools.js';
import { Bench, errorOf } from './bench.js';

class Session {
  constructor(readonly token: string) {}
}

class Account {
  @Expose() id = 'a-1';
  /** Only the ui's projection fails. */
  @Expose({ groups: ['ui'] })
  @Transform(({ value }) => {
    throw new Error(`cannot mask ${String(value)}`);
  })
  iban = 'DE00-s3cret';
}

class Note {
  @Expose() readonly entries: unknown;
  constructor(entries: unknown) {
    this.entries = entries;
  }
}

@ToolProvider({ namespace: 'bank' })
class BankTools {
  @LlmTool({ description: 'An account.', effect: 'read_only', output: Account })
  account(): Account {
    return new Account();
  }

  @LlmTool({ description: 'Opens one.', effect: 'state_change', output: Account }) open(): Account {
    return new Account();
  }

  @LlmTool({ description: 'Notes.', effect: 'read_only', output: Note }) notes(): Note {
    return new Note({ 'ada@s3cret.example': [new Session('s3cret')] });
  }

  @LlmTool({ description: 'Slow.', effect: 'read_only', reveal: 'all' })
  async *slow(): AsyncGenerator {
    yield* [{ ada: new Session('s3cret') }, { ada: new Session('s3cret') }];
    await Promise.resolve();
    yield 'done';
  }
}

const warningsIn = (events: readonly LoopEventBody[]) =>
  events.filter(({ type }) => type === 'warning');

async function callBank(name: string) {
  const bench = await Bench.start({ providers: [BankTools] });
  const run = bench.run();
  const outcome = await run.exec(`bank__${name}`);
  return { bench, run, outcome };
}

describe('invariant 10: a result that cannot be redacted', () => {
  it('invariant 10: is hidden from the model, too, when it fails for the ui alone, and a warning says where', async () => {
    const { run, outcome, bench } = await callBank('account');
    expect(errorOf(outcome).code).toBe('invalid_output');
    expect(warningsIn(run.events)).toEqual([
      {
        type: 'warning',
        step: 1,
        code: 'redaction_failed',
        message:
          'The result of bank__account could not be redacted for ui at "iban", so it is not shown.',
      },
    ]);
    expect(JSON.stringify([run.events, outcome])).not.toContain('s3cret');
    expect(bench.logger.errors()[0]?.details[0]).toMatchObject({
      name: 'ProjectionError',
      path: 'iban',
    });
  });

  it('invariant 10: comes with its warning before its result', async () => {
    const { run } = await callBank('account');
    expect(run.events.map(({ type }) => type)).toEqual([
      'tool-call',
      'tool-start',
      'warning',
      'tool-result',
    ]);
  });

  it('invariant 10: says that the effect took place, and brings no live value along', async () => {
    const { outcome } = await callBank('open');
    expect(outcome.content).toContain('Its effect took place');
    expect(outcome.live).toBeUndefined();
  });

  it('invariant 10: is told by what was declared, not by keys that are data', async () => {
    const { run, bench } = await callBank('notes');
    expect(warningsIn(run.events)).toMatchObject([
      {
        message:
          'The result of bank__notes could not be redacted for model at "entries.*.0", so it is not shown.',
      },
    ]);
    expect(bench.logger.errors()[0]?.details[0]).toMatchObject({
      path: 'entries.ada@s3cret.example.0',
    });
  });

  it('invariant 10: fails with whatever a projector of a source throws', async () => {
    const tool = {
      ...toolOf({ id: 'tool' }),
      output: {
        project: (): never => {
          throw new Error('s3cret');
        },
      },
    };
    const bench = await Bench.start();
    const run = bench.run({ tools: [tool], policies: [{ allow: ['tool'] }] });
    expect(errorOf(await run.exec('tool')).code).toBe('invalid_output');
    expect(warningsIn(run.events)).toMatchObject([{ code: 'redaction_failed' }]);
    expect(JSON.stringify(run.events)).not.toContain('s3cret');
  });

  it('invariant 10: is left out of the progress, with one warning for them all', async () => {
    const { run, outcome } = await callBank('slow');
    expect(outcome.content).toBe('done');
    expect(warningsIn(run.events)).toMatchObject([
      {
        message:
          'The result of bank__slow could not be redacted for ui at "*", so it is not shown.',
      },
    ]);
    expect(JSON.stringify(run.events)).not.toContain('s3cret');
  });
});
