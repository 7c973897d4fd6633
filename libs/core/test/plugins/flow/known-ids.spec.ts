import { describe, expect, it } from '@jest/globals';
import type { Message } from '@toolloop/core';
import type { JSONSchema7 } from 'json-schema';
import { MessageFlow } from '../../../src/plugins/flow/message-flow.js';
import { saidAsWell } from '../../../src/plugins/questions/asked-beforehand.js';
import { TrustedText } from '../../../src/plugins/flow/trusted-text.js';
import { readOrigins } from '../../../src/schema/field-origins.js';

const ORDER: JSONSchema7 = { type: 'string', pattern: '^ORD-\\d+$' };
const KEY: JSONSchema7 = { type: 'string', format: 'uuid' };
const NAME: JSONSchema7 = { type: 'string', pattern: '^[a-z]+$' };
const UUIDS = [1, 2, 3, 4].map((n) => `0f9d3c1e-7a55-4d0b-9f4a-00000000000${n}`);

const user = (content: string): Message => ({ role: 'user', content });
const result = (value: unknown, returns: 'trusted' | 'untrusted' = 'trusted'): Message => ({
  role: 'tool',
  toolCallId: 'c',
  toolName: 't',
  content: JSON.stringify(value),
  labels: { returns, reads: 'public' },
});
const orders = (count: number, first = 1): string[] =>
  Array.from({ length: count }, (_, index) => `ORD-${index + first}`);
const flowOf = (...messages: Message[]): MessageFlow => MessageFlow.of(messages);

type Flow = Parameters<typeof saidAsWell>[0];

/** The bits of an id that a stranger wrote, to a model that has read this. */
function bitsOf(id: string, flow: Flow, schema = ORDER): number {
  return readOrigins(id, schema, {
    actorId: undefined,
    knownIds: (isSuch) => flow.tracedWords?.(isSuch) ?? new Set(),
  }).outsideBits;
}

const said = (...words: string[]): TrustedText => new TrustedText(words);
const within = (outer: Flow, ...own: Message[]): MessageFlow => MessageFlow.within(outer).at(own);

/** The bits of `ORD-1` where nothing named it before. */
const UNKNOWN = 5 * Math.log2(37);

describe('invariant 15: an id from outside that the user or a trusted result named before', () => {
  it.each<[string, Flow, number]>([
    ['nothing, where it is the only one', flowOf(user('Look at ORD-1.')), 0],
    ['one bit, where it is one of two', flowOf(user('ORD-1 or ORD-2?')), 1],
    ['four bits, where it is one of sixteen', flowOf(result(orders(16))), 4],
    [
      'as much with ids of another form beside it',
      flowOf(user('ORD-1, INV-7, ORD-x?'), result(UUIDS)),
      0,
    ],
    ['as much where it was named twice', flowOf(user('ORD-1'), result(orders(2))), 1],
    ['as much where names are joined', flowOf(user('ORD-1, see x/ORD-2 and ORD-3/y')), 0],
    ['as much with what strangers named', flowOf(user('ORD-1'), result(orders(9), 'untrusted')), 0],
    ['the choice among those of an outer run', within(flowOf(result(orders(16)))), 4],
    [
      'the choice among those of both runs, each once',
      within(flowOf(result(orders(3))), result(orders(3, 2))),
      2,
    ],
    ['the choice among those of an answer', saidAsWell(flowOf(), said(...orders(4))), 2],
    [
      'the choice among those of an answer and of the run, each once',
      saidAsWell(flowOf(result(orders(3))), said('ORD-3', 'ORD-4')),
      2,
    ],
    [
      'the choice among those of an answer in a sub-run',
      within(saidAsWell(flowOf(), said(...orders(4)))),
      2,
    ],
    [
      'the choice among those that a person came to trust',
      flowOf(user('ORD-1'), result(orders(8), 'untrusted')).endorsing(() => true),
      3,
    ],
    [
      'the choice among those that a person trusts after an answer',
      saidAsWell(flowOf(result(orders(8), 'untrusted')), said('ORD-1')).endorsing?.(() => true) ??
        flowOf(),
      3,
    ],
    ['its length where nothing named it', flowOf(user('ORD-12')), UNKNOWN],
    ['its length where a stranger named it', flowOf(result(orders(2), 'untrusted')), UNKNOWN],
  ])('invariant 15: costs %s', (_, flow, bits) => {
    expect(bitsOf('ORD-1', flow)).toBeCloseTo(bits, 5);
  });

  it('invariant 15: costs the choice among the uuids that were named, and not among all ids', () => {
    const flow = flowOf(user('Look at ORD-1.'), result(UUIDS));
    expect(bitsOf(UUIDS[0] ?? '', flow, KEY)).toBe(2);
  });

  it('invariant 15: costs the choice in each field again', () => {
    const properties = { first: ORDER, second: ORDER, third: ORDER };
    const form = { first: 'ORD-3', second: 'ORD-3', third: 'ORD-16' };
    const reading = {
      actorId: undefined,
      knownIds: (isSuch: (id: string) => boolean) => flowOf(result(orders(16))).tracedWords(isSuch),
    };
    expect(readOrigins(form, { type: 'object', properties }, reading).outsideBits).toBe(12);
  });

  it('invariant 15: says nothing by its case: another spelling is another id', () => {
    const flow = flowOf(user('apple'));
    expect(bitsOf('apple', flow, NAME)).toBe(0);
    expect(bitsOf('aPPle', flow, NAME)).toBeGreaterThan(5);
  });

  it('invariant 15: costs no more than an id that nothing named', () => {
    const many = Array.from({ length: 400 }, (_, index) => String(index));
    const digits: JSONSchema7 = { type: 'string', pattern: '^\\d+$' };
    expect(bitsOf('7', flowOf(result(many)), digits)).toBeCloseTo(Math.log2(10), 5);
  });

  it('invariant 15: is counted among those of its own run, and not of another tenant', () => {
    const [acme, globex] = [flowOf(result(orders(16))), flowOf(result(orders(2)))];
    expect([bitsOf('ORD-1', acme), bitsOf('ORD-1', globex)]).toEqual([4, 1]);
  });
});
