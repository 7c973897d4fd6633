import { inspect } from 'node:util';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import {
  LlmTool,
  Secret,
  type ToolCallContext,
  ToolContext,
  ToolError,
  ToolField,
  ToolInput,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import { Expose, Transform, Type } from 'class-transformer';
import { IsString } from 'class-validator';
import { findingsOf } from '../../tools/application.js';
import { Bench } from '../../call/bench.js';

const KEY = 'sk-live-1';
const fine = { description: 'Does it.', effect: 'read_only', reveal: 'all' } as const;

class Account {
  @Expose() readonly id = 'a-1';
  @Expose() readonly key = new Secret(KEY);
  @Expose() @Type(() => Secret) readonly old = new Secret({ key: KEY });
  @Expose() readonly list: unknown = [new Secret(KEY)];
}

let effects = 0;

@Injectable()
@ToolProvider({ namespace: 'vault' })
class VaultTools {
  @LlmTool({ description: 'Does it.', effect: 'read_only', output: Account }) account(): Account {
    return new Account();
  }

  @LlmTool(fine) plain(): unknown {
    return {
      key: new Secret(KEY),
      all: [new Secret({ key: KEY })],
      map: new Map([['key', new Secret(KEY)]]),
    };
  }

  @LlmTool(fine) alone(): unknown {
    return new Secret(KEY);
  }

  @LlmTool({ ...fine, reveal: ['key'] }) picked(): unknown {
    return { key: new Secret(KEY), other: KEY };
  }

  @LlmTool(fine) fail(): never {
    throw new ToolError(`The key ${new Secret(KEY) as unknown as string} is wrong.`, {
      cause: { key: new Secret(KEY) },
    });
  }

  @LlmTool(fine) crash(): never {
    throw Object.assign(new Error('no'), { config: { key: new Secret(KEY) } });
  }

  @LlmTool(fine) log(@ToolContext() context: ToolCallContext): void {
    context.logger.warn({ key: new Secret(KEY), context: context.context }, new Secret(KEY));
  }

  @LlmTool(fine) progress(@ToolContext() context: ToolCallContext): void {
    context.progress({ key: new Secret(KEY) });
  }

  @LlmTool(fine) read(@ToolContext() context: ToolCallContext): boolean {
    const { key } = context.context;
    return key instanceof Secret && key.reveal() === KEY;
  }

  @LlmTool({
    ...fine,
    effect: 'state_change',
    idempotencyKey: (input: { id: string }) =>
      `${input.id} ${new Secret(KEY) as unknown as string}`,
  })
  save(@ToolParam('id', { description: 'Which.' }) _id: string): number {
    return (effects += 1);
  }
}

let bench: Bench;
beforeEach(async () => {
  bench = await Bench.start({ providers: [VaultTools] });
});

describe('invariant 10: a secret', () => {
  it.each([
    ['account', { id: 'a-1', key: '[secret]', old: '[secret]', list: ['[secret]'] }],
    ['plain', { key: '[secret]', all: ['[secret]'], map: { key: '[secret]' } }],
    ['picked', { key: '[secret]' }],
  ])('invariant 10: is one word for model and ui in a result: %s', async (name, shown) => {
    const { content, record } = await bench.run().exec(`vault__${name}`);
    expect([JSON.parse(content), record.result]).toEqual([shown, shown]);
  });

  it('invariant 10: is that word as the whole result', async () => {
    expect((await bench.run().exec('vault__alone')).content).toBe('[secret]');
  });

  it.each(['fail', 'crash', 'log', 'progress', 'account', 'plain'])(
    'invariant 10: is in nothing that anybody reads: %s',
    async (name) => {
      const run = bench.run({
        context: { key: new Secret(KEY) },
        execution: { logArguments: true },
      });
      const { content, record } = await run.exec(`vault__${name}`);
      const all =
        JSON.stringify([content, record, run.events]) +
        inspect(bench.logger.lines, { depth: 20, showHidden: true });
      expect(all).not.toContain('sk-live');
    },
  );

  it('invariant 10: is there for the tool in the run’s context', async () => {
    expect(
      (await bench.run({ context: { key: new Secret(KEY) } }).exec('vault__read')).content,
    ).toBe('true');
  });

  it('invariant 13: tells no two calls apart, so a key that holds one keeps the call from being made', async () => {
    const { record, content } = await bench.run().exec('vault__save', { id: 'a' });
    expect([record.error?.code, effects]).toEqual(['execution_failed', 0]);
    expect(content).not.toContain('[secret]');
    expect(inspect(bench.logger.errors(), { depth: 5 })).toContain('contains a Secret');
  });

  it('invariant 10: is nothing a model can send', async () => {
    class Login {
      @ToolField({}) key!: Secret<string>;
    }
    class Entry {
      @IsString() @Transform(({ value }) => new Secret(value)) key!: Secret<string>;
    }
    @ToolProvider({ namespace: 'login' })
    class LoginTools {
      @LlmTool(fine) login(@ToolInput() _input: Login): void {
        // never called
      }

      @LlmTool(fine) enter(@ToolInput() _input: Entry): void {
        // never called
      }

      @LlmTool(fine) say(
        @ToolParam('key', { description: 'The key.' }) _key: Secret<string>,
      ): void {
        // never called
      }
    }
    const findings = await findingsOf({ providers: [LoginTools] });
    expect(findings.map(({ at }) => at)).toEqual([
      'LoginTools.login',
      'LoginTools.enter',
      'LoginTools.say',
    ]);
    expect(findings[0]).toMatchObject({
      problem:
        'Login.key is a Secret, but arguments of a model are not secret: they are in the transcript.',
      remedy: expect.stringContaining('ToolCallContext.context'),
    });
  });
});
