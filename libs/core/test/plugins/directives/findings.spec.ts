import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Expose } from 'class-transformer';
import {
  ActorDirectory,
  LlmTool,
  tool,
  ToolField,
  ToolInput,
  ToolLoopModule,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import { IsArray, IsOptional, IsString } from 'class-validator';
import {
  DEFAULT_DIRECTIVES,
  directiveOptionsOf,
} from '../../../src/plugins/directives/directive-options.js';
import { findingsOf } from '../../tools/application.js';
import { People } from './bench.js';

const does = { description: 'Refunds.', effect: 'external_side_effect', reveal: 'all' } as const;
const directory = { provide: ActorDirectory, useClass: People };
const good = { type: 'order.refund', subject: '{orderId}' };

class Refund {
  @Expose({ groups: ['model'] }) @IsString() card!: string;
  @IsString() orderId!: string;
  @IsOptional() @IsString() note?: string;
  @ToolField({ description: 'Lines' }) @IsArray() @IsString({ each: true }) lines!: string[];
}

/** Problem and remedy of a provider whose one tool has this directive. */
async function told(
  directive: object,
  more: object = {},
  ports: readonly object[] = [directory],
): Promise<string[]> {
  @Injectable()
  @ToolProvider({ namespace: 'bank' })
  class BankTools {
    @LlmTool({ ...does, ...more, directive: directive as never })
    refund(@ToolInput() input: Refund): string {
      return input.orderId;
    }

    undo(): void {
      // nothing to undo
    }
  }
  const findings = await findingsOf({ providers: [BankTools], ports: ports as never });
  return findings.map(({ problem, remedy }) => `${problem} ${remedy}`);
}

describe('a wrong declaration of a directive', () => {
  it.each([
    ['without a type', { subject: '{orderId}' }, 'no type'],
    [
      'of a type that is no word',
      { type: 'Order Refund', subject: '{orderId}' },
      'none that can be used: "Order Refund"',
    ],
    ['without a subject', { type: 'order.refund' }, 'has no subject'],
    [
      'about an argument there is none of',
      { ...good, subject: '{orderID}' },
      'names "orderID", and the tool has no such argument. Did you mean "orderId"?',
    ],
    [
      'about an argument that may be missing',
      { ...good, subject: '{note}' },
      'a call may leave the argument out',
    ],
    ['about a list', { ...good, subject: '{lines}' }, 'is not a string, number or boolean'],
    ['with a key of nothing', { ...good, key: ' ' }, 'has no key'],
    [
      'with a key of an argument there is none of',
      { ...good, key: '{month}' },
      'The key of its directive names "month"',
    ],
    [
      'that requires a preview the tool has none of',
      { ...good, preview: 'required' },
      'requires a preview, and the tool has none',
    ],
    [
      'with a word that is none of an option',
      { ...good, maybeRan: 'again' },
      "The maybeRan of its directive is \"again\". Give 'ask' or 'repeat'.",
    ],
    [
      'attempted never',
      { ...good, attempts: 0 },
      'The attempts of its directive is 0. Give a whole number from 1 to 50.',
    ],
    [
      'with an option there is none of',
      { ...good, subjekt: 'x' },
      'no option "subjekt". Did you mean "subject"?',
    ],
    [
      'undone by a method there is none of',
      { ...good, compensate: 'undoo' },
      'Its compensate names "undoo", and BankTools has no such method.',
    ],
  ])('%s', async (_, directive, message) => {
    expect(await told(directive)).toEqual([expect.stringContaining(message)]);
  });

  it.each([
    ['of a tool that only reads', { effect: 'read_only' }, 'It only reads and has a directive.'],
    [
      'beside an idempotencyKey',
      { idempotencyKey: () => 'x' },
      'It has both an idempotencyKey and a directive.',
    ],
  ])('%s', async (_, more, message) => {
    expect(await told(good, more)).toEqual([expect.stringContaining(message)]);
  });

  it('stops the start without a way to load its actor', async () => {
    expect(await told(good, {}, [])).toEqual([expect.stringContaining('nothing loads the actor')]);
  });

  it('stops the start with a type that two tools share', async () => {
    const tools = ['a__x', 'b__x'].map((id) =>
      tool(Object.assign({ id, directive: { type: 'x', subject: 'all' }, execute: () => 1 }, does)),
    );
    const findings = await findingsOf({ ports: [directory], options: { tools } });
    expect(findings.map(({ problem }) => problem)).toEqual(
      Array(2).fill('Another tool also has directives of the type "x".'),
    );
  });

  it('stops the start at an entity that nothing finds again when it is performed', async () => {
    @ToolProvider({ prefix: 'order' })
    class Order {
      @Expose() readonly id = 'o-1';

      @LlmTool({ ...does, directive: { type: 'x', subject: '{why}' } })
      refund(@ToolParam('why', { description: 'Why', type: 'string' }) why: string): string {
        return why;
      }
    }
    const findings = await findingsOf({
      ports: [directory],
      imports: [ToolLoopModule.forFeature({ entities: [Order] })],
    });
    expect(findings.map(({ problem }) => problem)).toEqual([
      'It has a directive, and nothing finds its Order again when that is performed.',
    ]);
  });

  it('stops the start when it is about a hidden argument', async () => {
    expect(await told({ ...good, subject: '{card}' })).toEqual([
      expect.stringContaining('hidden from the ui'),
    ]);
  });

  it('stops the start without an operator, or an expiry', async () => {
    const directives = { operators: [], concurrency: 0, longestDelayMs: 1, perfrom: true } as never;
    const findings = await findingsOf({ options: { directives } });
    expect(findings.map(({ problem }) => problem)).toEqual([
      'There is no option "perfrom".',
      'Its operators is [].',
      'Its concurrency is 0.',
      'It waits from 1000 to 1 ms.',
    ]);
  });

  it.each<[string, object]>([
    ['Its operators is "manager".', { operators: 'manager' }],
    ['Its operators is [5].', { operators: [5] }],
    ['Its operators is ["manager",""].', { operators: ['manager', ''] }],
    ['Its operators is null.', { operators: null }],
    ['Its perform is "no".', { perform: 'no' }],
    ['Its concurrency is "4".', { concurrency: '4' }],
    ['Its concurrency is 1.5.', { concurrency: 1.5 }],
    ['Its firstDelayMs is "5".', { firstDelayMs: '5' }],
    ['Its longestDelayMs is Infinity.', { longestDelayMs: Infinity }],
    ['Its heartbeatMs is 1000000000000.', { heartbeatMs: 1e12 }],
    ['Its takeoverMs is 0.', { takeoverMs: 0 }],
    ['It waits from 1000 to 1 ms.', { longestDelayMs: 1 }],
    ['Its takeoverMs of 4000 is less than two heartbeats of 3000.', { takeoverMs: 4_000 }],
  ])('stops the start with options of which it says: %s', async (problem, directives) => {
    expect(await findingsOf({ options: { directives } })).toMatchObject([{ problem }]);
  });

  it.each<[string, unknown]>([
    ['null', null],
    ['"yes"', 'yes'],
    ['a list', ['manager']],
  ])('stops the start with %s for options', async (shown, directives) => {
    expect(await findingsOf({ options: { directives: directives as never } })).toMatchObject([
      { problem: `The option "directives" is ${shown}.` },
    ]);
  });

  it('leaves a default in place of what is undefined', async () => {
    const directives = { perform: undefined, takeoverMs: undefined, firstDelayMs: undefined };
    await expect(findingsOf({ options: { directives } })).rejects.toThrow(
      'The application started.',
    );
    expect(directiveOptionsOf(directives)).toEqual(DEFAULT_DIRECTIVES);
  });
});

it('a directive that is declared well starts the application', async () => {
  await expect(
    told({ ...good, key: 'whole', compensate: 'undo', attempts: 3, maybeRan: 'repeat' }),
  ).rejects.toThrow('The application started.');
});
