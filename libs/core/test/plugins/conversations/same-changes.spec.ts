import { describe, expect, it } from '@jest/globals';
import { type PipeTransform, UsePipes } from '@nestjs/common';
import { Transform, Type } from 'class-transformer';
import {
  IsDate,
  IsIn,
  IsInt,
  IsISO8601,
  IsNotEmpty,
  IsOptional,
  IsString,
  IsUUID,
  ValidateNested,
} from 'class-validator';
import type { JSONSchema7 } from 'json-schema';
import {
  LlmTool,
  type Policy,
  tool,
  ToolInput,
  ToolLoopService,
  ToolProvider,
} from '@toolloop/core';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { ask, openModule } from '../../fixtures/shop.module.js';

const OPEN: Policy = { version: 'v1', allow: ['*'], flow: 'off' };
const COMPOSED = 'Café'.normalize('NFC');
const APART = 'Café'.normalize('NFD');

class Guest {
  @IsString() name!: string;
}

/** An amount whose content no one sees from outside. */
class Weight {
  readonly #grams: number;

  constructor(grams: number) {
    this.#grams = grams;
  }

  heavier(): Weight {
    return new Weight(this.#grams + 1);
  }
}

class Booking {
  @IsOptional()
  @IsString()
  @Transform(({ value }: { value: unknown }) => (typeof value === 'string' ? value.trim() : value))
  room?: string;
  @IsOptional() @Type(() => Date) @IsDate() at?: Date;
  @IsOptional() @IsISO8601({ strict: true }) until?: string;
  @IsOptional() @IsUUID() key?: string;
  @IsOptional() @IsInt() nights?: number = 1;
  @IsOptional() @IsIn(['lake', 'street']) view: string = 'lake';
  @IsOptional() @ValidateNested({ each: true }) @Type(() => Guest) guests?: Guest[];
  @IsOptional()
  @IsNotEmpty()
  @Transform(({ value }: { value: unknown }) => new Weight(String(value).length))
  luggage?: string;
}

@ToolProvider({ namespace: 'hotel' })
class Hotel {
  readonly booked: unknown[] = [];

  @LlmTool({
    description: 'Books a room.',
    effect: 'state_change',
    reveal: 'all',
    labels: { returns: 'trusted' },
  })
  book(@ToolInput() booking: Booking): string {
    this.booked.push(booking);
    booking.room = 'changed by the tool';
    delete booking.at;
    return 'booked';
  }
}

const ORDER: JSONSchema7 = {
  type: 'object',
  properties: {
    note: { type: 'string' },
    count: { type: 'number', default: 1 },
    gift: { type: 'boolean', default: false },
    at: { type: 'string', format: 'date-time' },
    either: { anyOf: [{ type: 'string', format: 'date-time' }, { type: 'null' }] },
    slots: { type: 'array', items: { $ref: '#/$defs/slot' } },
    key: { type: 'string', format: 'uuid' },
    extra: { type: 'object', additionalProperties: { type: 'string' } },
  },
  $defs: {
    slot: { type: 'object', properties: { from: { type: 'string', format: 'date-time' } } },
  },
};

/**
 * Has one call made, its answer given anew, and the other call made in the new answer. Returns how
 * often something was changed.
 */
async function changes(declaredId: string, first: string, second: string): Promise<number> {
  const script = [first, second].flatMap((args) => [
    calls({ ...call(declaredId, {}), arguments: args }),
    text('Done.'),
  ]);
  const ordered: unknown[] = [];
  const order = tool({
    id: 'shop__order',
    description: 'Orders.',
    effect: 'state_change',
    input: ORDER,
    reveal: 'all',
    labels: { returns: 'trusted' },
    execute: (args: object) => `order ${ordered.push(args)}`,
  });
  const module = await openModule(new ScriptedModel(script), {
    policy: OPEN,
    tools: [order],
    providers: [Hotel, Post],
  });
  const loop: ToolLoopService = module.get(ToolLoopService);
  const { runId } = await loop.run(ask({ conversationId: 'c1', prompt: 'Do it.' }));
  const again = await loop.run(
    ask({ conversationId: 'c1', prompt: 'Do it.', cut: { at: [runId] } }),
  );
  expect(again.toolCalls.map(({ status, error }) => [status, error])).toEqual([
    ['succeeded', undefined],
  ]);
  const made = ordered.length + module.get(Hotel).booked.length + module.get(Post).sent.length;
  await module.close();
  return made;
}

const KEY = '0f8fad5b-d9cb-469f-a165-70867728950e';

class Doubling implements PipeTransform {
  transform(given: unknown): unknown {
    return given instanceof Parcels
      ? Object.assign(new Parcels(), { count: given.count * 2 })
      : given;
  }
}

class Parcels {
  @IsInt() count!: number;
}

@ToolProvider({ namespace: 'post' })
class Post {
  readonly sent: number[] = [];

  @LlmTool({
    description: 'Sends parcels, two for each.',
    effect: 'state_change',
    reveal: 'all',
    labels: { returns: 'trusted' },
  })
  @UsePipes(new Doubling())
  send(@ToolInput() { count }: Parcels): string {
    this.sent.push(count);
    return 'sent';
  }
}

describe('a change that an answer asks for once more', () => {
  it.each<[string, string, string, string]>([
    ['the order of its members', 'shop__order', '{"note":"a","count":2}', '{"count":2,"note":"a"}'],
    [
      'the order of members within',
      'shop__order',
      '{"extra":{"a":"1","b":"2"}}',
      '{"extra":{"b":"2","a":"1"}}',
    ],
    ['spaces between its members', 'shop__order', '{"note":"a"}', '{ "note" :\n "a" }'],
    ['the form of a number', 'shop__order', '{"count":2}', '{"count":2.0}'],
    ['an exponent', 'shop__order', '{"count":200}', '{"count":2e2}'],
    ['the sign of zero', 'shop__order', '{"count":0}', '{"count":-0.0}'],
    ['escapes in a text', 'shop__order', '{"note":"aé"}', '{"note":"\\u0061\\u00e9"}'],
    [
      'a default that is written out',
      'shop__order',
      '{"note":"a"}',
      '{"note":"a","count":1,"gift":false}',
    ],
    ['a null in the place of nothing', 'shop__order', '{"note":"a"}', '{"note":"a","count":null}'],
    [
      'the time zone of a moment',
      'shop__order',
      '{"at":"2026-01-31T09:30:00Z"}',
      '{"at":"2026-01-31T10:30:00+01:00"}',
    ],
    [
      'milliseconds that are zero',
      'shop__order',
      '{"at":"2026-01-31T09:30:00Z"}',
      '{"at":"2026-01-31T09:30:00.000Z"}',
    ],
    [
      'the time zone of a moment in a union',
      'shop__order',
      '{"either":"2026-01-31T09:30:00Z"}',
      '{"either":"2026-01-31T04:30:00-05:00"}',
    ],
    [
      'the time zone of a moment in a list',
      'shop__order',
      '{"slots":[{"from":"2026-01-31T09:30:00Z"}]}',
      '{"slots":[{"from":"2026-01-31T10:30:00+01:00"}]}',
    ],
    [
      'the form in which Unicode writes a letter',
      'shop__order',
      JSON.stringify({ note: COMPOSED }),
      JSON.stringify({ note: APART }),
    ],
    [
      'that form in the name of a member',
      'shop__order',
      JSON.stringify({ extra: { [COMPOSED]: 'a' } }),
      JSON.stringify({ extra: { [APART]: 'a' } }),
    ],
    ['nothing, where a pipe changes it', 'post__send', '{"count":1}', '{"count":1}'],
    [
      'the time zone of a moment in a text',
      'shop__order',
      '{"note":"2026-01-31T09:30:00Z"}',
      '{"note":"2026-01-31T10:30:00+01:00"}',
    ],
    ['the case of a UUID', 'shop__order', `{"key":"${KEY}"}`, `{"key":"${KEY.toUpperCase()}"}`],
    ['spaces that its class leaves out', 'hotel__book', '{"room":"12"}', '{"room":" 12 "}'],
    [
      'the time zone of a date of its class',
      'hotel__book',
      '{"at":"2026-01-31T09:30:00Z"}',
      '{"at":"2026-01-31T10:30:00+01:00"}',
    ],
    [
      'the time zone of a text of its class',
      'hotel__book',
      '{"until":"2026-01-31T09:30:00Z"}',
      '{"until":"2026-01-31T10:30:00+01:00"}',
    ],
    [
      'the case of a UUID of its class',
      'hotel__book',
      `{"key":"${KEY}"}`,
      `{"key":"${KEY.toUpperCase()}"}`,
    ],
    [
      'a default of its class that is written out',
      'hotel__book',
      '{"room":"12"}',
      '{"room":"12","nights":1,"view":"lake"}',
    ],
    [
      'the form of a letter in a class within',
      'hotel__book',
      `{"guests":[{"name":"${COMPOSED}"}]}`,
      `{"guests":[{"name":"${APART}"}]}`,
    ],
  ])('is not made again if it differs in %s alone', async (_, declaredId, first, second) => {
    expect(await changes(declaredId, first, second)).toBe(1);
    expect(await changes(declaredId, second, first)).toBe(1);
  });

  it.each<[string, string, string, string]>([
    ['a text with another case', 'shop__order', '{"note":"a"}', '{"note":"A"}'],
    ['a text with a space more', 'shop__order', '{"note":"a"}', '{"note":"a "}'],
    ['a letter that only looks alike', 'shop__order', '{"note":"x2"}', '{"note":"x²"}'],
    ['another number', 'shop__order', '{"count":1}', '{"count":1.01}'],
    ['another value than the default', 'shop__order', '{"note":"a"}', '{"note":"a","gift":true}'],
    [
      'another moment',
      'shop__order',
      '{"at":"2026-01-31T09:30:00Z"}',
      '{"at":"2026-01-31T09:30:00+01:00"}',
    ],
    [
      'a moment that is a millisecond later',
      'shop__order',
      '{"at":"2026-01-31T09:30:00Z"}',
      '{"at":"2026-01-31T09:30:00.001Z"}',
    ],
    [
      'a moment that is a microsecond later',
      'shop__order',
      '{"at":"2026-01-31T09:30:00Z"}',
      '{"at":"2026-01-31T09:30:00.000001Z"}',
    ],
    [
      'a moment without a time zone',
      'shop__order',
      '{"note":"2026-01-31T09:30:00Z"}',
      '{"note":"2026-01-31T09:30:00"}',
    ],
    ['another UUID', 'shop__order', `{"key":"${KEY}"}`, `{"key":"${KEY.replace('0', '1')}"}`],
    [
      'a sentence about a moment',
      'shop__order',
      '{"note":"at 2026-01-31T09:30:00Z"}',
      '{"note":"at 2026-01-31T10:30:00+01:00"}',
    ],
    [
      'two members whose names are one letter',
      'shop__order',
      `{"extra":{"${COMPOSED}":"a","${APART}":"b"}}`,
      `{"extra":{"${COMPOSED}":"b","${APART}":"a"}}`,
    ],
    [
      'another order of a list',
      'shop__order',
      '{"slots":[{"from":"2026-01-31T09:30:00Z"},{"from":"2026-02-01T09:30:00Z"}]}',
      '{"slots":[{"from":"2026-02-01T09:30:00Z"},{"from":"2026-01-31T09:30:00Z"}]}',
    ],
    ['an empty text in the place of nothing', 'shop__order', '{}', '{"note":""}'],
    ['what a pipe has made of another', 'post__send', '{"count":1}', '{"count":2}'],
    ['a text of another class', 'hotel__book', '{"room":"12"}', '{"room":"1 2"}'],
    [
      'another date of its class',
      'hotel__book',
      '{"at":"2026-01-31T09:30:00Z"}',
      '{"at":"2026-01-31T09:30:00+01:00"}',
    ],
    [
      'another value than the default of its class',
      'hotel__book',
      '{"room":"12"}',
      '{"room":"12","view":"street"}',
    ],
    [
      'what a class makes something of that cannot be looked into',
      'hotel__book',
      '{"luggage":"a"}',
      '{"luggage":"ab"}',
    ],
  ])('is made if it says %s', async (_, declaredId, first, second) => {
    expect(await changes(declaredId, first, second)).toBe(2);
  });
});
