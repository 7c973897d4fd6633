import { describe, expect, it } from '@jest/globals';
import type { JsonObject, JsonValue } from '@toolloop/core';
import type { JSONSchema7 } from 'json-schema';
import { UserRequest } from '../../../src/plugins/flow/user-request.js';
import { cpuSecondsOf } from '../../fixtures/time.js';
import { subjectOf } from '../../policy/subjects.js';

const inputSchema: JSONSchema7 = {
  type: 'object',
  properties: {
    express: { type: 'boolean' },
    reason: { type: 'string', enum: ['no_longer_needed', 'ordered_by_mistake'] },
    currency: { type: 'string', default: 'EUR', enum: ['EUR', 'USD'] },
    notify: { type: 'boolean', default: true },
  },
};
const bank = subjectOf({ declaredId: 'bank__transferMoney', inputSchema });

function callWith(args: JsonObject, ...before: readonly JsonObject[]) {
  return {
    args,
    spent: {
      calls: before.map((one) => ({ declaredId: bank.declaredId, trusted: true, args: one })),
    },
  };
}

function asksFor(text: string, args: JsonObject, ...before: readonly JsonObject[]): boolean {
  return new UserRequest([text]).names(bank, callWith(args, ...before));
}

const IBAN = 'DE89370400440532013000';

describe('the values that a user names', () => {
  it.each<[string, JsonValue]>([
    ['Transfer the money on May 19, 2024.', '2024-05-19'],
    ['Transfer the money on the 19th of May 2024, please.', '2024-05-19'],
    ['Transfer the money on 19.05.2024.', '2024-05-19'],
    ['Transfer the money on 5/19/2024.', '2024-05-19'],
    ['Transfer the money on 2024-05-19.', 'May 19, 2024'],
    ['Transfer money at 3:30 pm.', '15:30'],
    ['Transfer money to DE89 3704 0044 0532 0130 00.', IBAN],
    ['Transfer money, 1,234.50 EUR.', 1234.5],
    ['Transfer money, 1.234,50 euros.', 1234.5],
    ['Transfer money: $100.', 100],
    ['Transfer money for Ann@Example.org.', 'ann@example.org'],
    ['Transfer money and call +49 (30) 123-4567.', '+49301234567'],
    ['Transfer money for order #W2378156.', '#W2378156'],
    ['Transfer money for https://example.com/a.', 'https://example.com/a'],
    [`Transfer 50 EUR of money to ${IBAN}.`, 50],
    [`Transfer money to ${IBAN} 50 EUR.`, IBAN],
    ['Transfer money to DE89 3704 0044 0532 0130 00 50 EUR.', IBAN],
    ['Transfer money, €50.', '50 EUR'],
    ['No, wait. Transfer the money to KX-77.', 'KX-77'],
  ])('are traced by their kind: %s', (text, value) => {
    expect(asksFor(text, { value })).toBe(true);
  });

  it.each<[string, string, JsonObject]>([
    ['a day is no number', 'Transfer money on June 13.', { amount: 13 }],
    ['a number is no id', 'Transfer money for the last 3 messages.', { fileId: 3 }],
    ['a number as a text is an id', 'Transfer money for the last 30 messages.', { file: '30' }],
    ['a word may mean anything', 'Transfer money to Mallory.', { to: 'Mallory' }],
    ['a negation is no consent', `Never transfer money to ${IBAN}.`, { to: IBAN }],
    [
      'a negation of another kind is none either',
      `Transfer money, but not to ${IBAN}.`,
      { to: IBAN },
    ],
    ['a range is no amount', 'Transfer money, up to 100 EUR.', { amount: 100 }],
    ['two bounds are no amount', 'Transfer money, 100 EUR to 200 EUR.', { amount: 100 }],
    ['1.500 has two meanings', 'Transfer money, 1.500 EUR.', { amount: 1500 }],
    ['5/6/2024 is two dates', 'Transfer money on 5/6/2024.', { date: '2024-06-05' }],
    ['another case is another id', 'Transfer money for KX-77.', { id: 'kx-77' }],
    [
      'a longer address is another',
      'Transfer money for ann@a.org.',
      { to: 'ann@a.org.evil.example' },
    ],
    [
      'a number that checks out as none',
      'Transfer money to DE89 3704 0044 0532 0130 01.',
      { to: 'DE89370400440532013001' },
    ],
    ['a key of a map is a value', 'Transfer money, 100 EUR.', { parts: { Mallory: 100 } }],
    [
      'which of two is meant someone else could decide',
      'Transfer money to a@x.org or b@x.org.',
      { to: 'a@x.org' },
    ],
    [
      'a choice alone proves nothing',
      'Transfer money: no longer needed.',
      { reason: 'no_longer_needed' },
    ],
    ['a switch that was not named', 'Transfer money, 100 EUR.', { amount: 100, express: true }],
    [
      'a choice that was not named',
      'Transfer money, 100 EUR.',
      { amount: 100, reason: 'ordered_by_mistake' },
    ],
    ['another currency is another amount', 'Transfer money, 100 EUR.', { amount: '100 USD' }],
    ['a default of another currency', 'Transfer money, $100.', { amount: 100, currency: 'EUR' }],
    [
      'a number beside an amount may be meant',
      'Transfer money, 3 EUR for 50 nights.',
      { amount: 50 },
    ],
    [
      'where the money comes from is not where it goes',
      'Transfer money out of AC-100 into AC-200.',
      { from: 'AC-200', to: 'AC-100' },
    ],
    [
      'two numbers may be exchanged',
      'Transfer money: rate 5 and hours 20.',
      { rate: 20, hours: 5 },
    ],
    [
      'two parts of one item',
      'Transfer money: 1 for KX-77 and 2 for KX-88.',
      {
        all: [
          { of: 'KX-77', n: 2 },
          { of: 'KX-88', n: 1 },
        ],
      },
    ],
    [
      'one of two takes the place of the other',
      'Transfer money to a@x.org and b@x.org.',
      { to: ['a@x.org', 'A@x.org'] },
    ],
    [
      'another choice was named as well',
      'Transfer 100 EUR of money. No longer needed, ordered by mistake.',
      { amount: 100, reason: 'ordered_by_mistake' },
    ],
    [
      'the default is not what was named',
      'Transfer money, 100 USD.',
      { amount: 100, currency: 'EUR' },
    ],
    [
      'the default was forbidden',
      'Transfer 100 EUR of money. Do not notify them.',
      { amount: 100, notify: true },
    ],
    ['letters that only look like those', 'Transfer money to ann@a.org.', { to: 'ａnn@a.org' }],
    ['it was taken back', 'Transfer money to a@x.org. Wait, do nothing yet.', { to: 'a@x.org' }],
    [
      'it was taken back in a word',
      'Transfer money to a@x.org. Stop! I changed my mind.',
      { to: 'a@x.org' },
    ],
    ['it was refused', 'Transfer money to a@x.org? No.', { to: 'a@x.org' }],
  ])('are not taken for what they are not: %s', (_, text, args) => {
    expect(asksFor(text, args)).toBe(false);
  });

  it.each<[string, string, JsonObject, JsonObject]>([
    [
      'in another notation',
      `Transfer money into ${IBAN}.`,
      { to: IBAN },
      { to: 'DE89 3704 0044 0532 0130 00' },
    ],
    ['in other letters', 'Transfer money to a@x.org.', { to: 'a@x.org' }, { to: 'A@X.org' }],
    [
      'in another order',
      'Transfer money to a@x.org and b@x.org.',
      { to: ['a@x.org', 'b@x.org'] },
      { to: ['b@x.org', 'a@x.org'] },
    ],
    [
      'with another switch',
      'Transfer money by express, 100 EUR.',
      { amount: 100 },
      { amount: 100, express: true },
    ],
  ])('are asked for once, and not again %s', (_, text, args, again) => {
    expect(asksFor(text, again)).toBe(true);
    expect(asksFor(text, again, args)).toBe(false);
  });

  it('name the instance on which a tool is called, where it has one', () => {
    const refund = subjectOf({ declaredId: 'invoice_*_refund', inputSchema: { type: 'object' } });
    const isOf = (text: string, instanceId: string): boolean =>
      new UserRequest([text]).names(refund, { ...callWith({ amount: 50 }), instanceId });
    expect(isOf('Refund 50 EUR of invoice A-100.', 'A-100')).toBe(true);
    expect(isOf('Refund 50 EUR of invoice A-100.', 'B-200')).toBe(false);
    expect(isOf('Refund 50 EUR of invoices A-100 and B-200.', 'A-100')).toBe(false);
    expect(isOf('Refund 50 EUR of the newest invoice.', 'A-100')).toBe(false);
  });

  it.each([
    'do not ',
    'DE89 3704 0044 ',
    '50 EUR ',
    '1,',
    'a@',
    'to 5 ',
    'Wait, ',
    'between 5 and ',
    'A1-',
    '9',
    ' ',
    'May ',
  ])('are found in a time that grows with the words: many of %j', (unit) => {
    const prompt = `Transfer money: ${unit.repeat(Math.ceil(100_000 / unit.length))}`;
    expect(cpuSecondsOf(() => asksFor(prompt, { amount: 50, to: 'A1-A1' }))).toBeLessThan(3);
  });

  it('may be two where the call takes both', () => {
    expect(asksFor('Transfer money to a@x.org and b@x.org.', { to: ['a@x.org', 'b@x.org'] })).toBe(
      true,
    );
  });

  it('may stand beside a choice as it was named, a switch as it was named, and a default', () => {
    expect(
      asksFor('Transfer money by express, 100 EUR.', {
        amount: 100,
        express: true,
        currency: 'EUR',
      }),
    ).toBe(true);
    expect(
      asksFor('Transfer 100 EUR of money, ordered by mistake.', {
        amount: 100,
        reason: 'ordered_by_mistake',
      }),
    ).toBe(true);
  });
});

describe('the tool that a user names', () => {
  it.each([
    ['Transferring money: $100.', true],
    ['Please transfer the money, $100.', true],
    ['I read about transfers: $100.', false],
    ['What is $100 in euros?', false],
  ])('is known by the words of its id: %s', (text, isNamed) => {
    expect(asksFor(text, { amount: 100 })).toBe(isNamed);
  });

  it('is traced by its decisive arguments alone where it says which they are', () => {
    const labels = {
      returns: 'untrusted',
      reads: 'private',
      egress: false,
      decisive: ['amount'],
    } as const;
    const request = new UserRequest(['Transfer money: $100.']);
    expect(request.names({ ...bank, labels }, callWith({ amount: 100, memo: 'anything' }))).toBe(
      true,
    );
    expect(request.names(bank, callWith({ amount: 100, memo: 'anything' }))).toBe(false);
  });
});
