import { describe, expect, it } from '@jest/globals';
import type { JsonObject, JsonValue } from '@toolloop/core';
import type { JSONSchema7 } from 'json-schema';
import { UserRequest } from '../../src/policy/user-request.js';
import { subjectOf } from './subjects.js';

const inputSchema: JSONSchema7 = {
  type: 'object',
  properties: {
    express: { type: 'boolean' },
    reason: { type: 'string', enum: ['no_longer_needed', 'ordered_by_mistake'] },
    currency: { type: 'string', default: 'EUR', enum: ['EUR', 'USD'] },
  },
};
const bank = subjectOf({ declaredId: 'bank__transferMoney', inputSchema });

function asksFor(text: string, args: JsonObject): boolean {
  return new UserRequest([text]).names(bank, args);
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
  ])('are traced by their kind: %s', (text, value) => {
    expect(asksFor(text, { value })).toBe(true);
  });

  it.each<[string, string, JsonObject]>([
    ['a day is no number', 'Transfer money on June 13.', { amount: 13 }],
    ['a number is no id', 'Transfer money for the last 3 messages.', { fileId: 3 }],
    ['a number as a text is an id', 'Transfer money for the last 30 messages.', { file: '30' }],
    ['a word may mean anything', 'Transfer money to Mallory.', { to: 'Mallory' }],
    ['a negation is no consent', `Never transfer money to ${IBAN}.`, { to: IBAN }],
    ['a negation of another kind is none either', `Transfer money, but not to ${IBAN}.`, { to: IBAN }],
    ['a range is no amount', 'Transfer money, up to 100 EUR.', { amount: 100 }],
    ['two bounds are no amount', 'Transfer money, 100 EUR to 200 EUR.', { amount: 100 }],
    ['1.500 has two meanings', 'Transfer money, 1.500 EUR.', { amount: 1500 }],
    ['5/6/2024 is two dates', 'Transfer money on 5/6/2024.', { date: '2024-06-05' }],
    ['another case is another id', 'Transfer money for KX-77.', { id: 'kx-77' }],
    ['a longer address is another', 'Transfer money for ann@a.org.', { to: 'ann@a.org.evil.example' }],
    ['a number that checks out as none', 'Transfer money to DE89 3704 0044 0532 0130 01.', { to: 'DE89370400440532013001' }],
    ['a key of a map is a value', 'Transfer money, 100 EUR.', { parts: { Mallory: 100 } }],
    ['which of two is meant someone else could decide', 'Transfer money to a@x.org or b@x.org.', { to: 'a@x.org' }],
    ['a choice alone proves nothing', 'Transfer money: no longer needed.', { reason: 'no_longer_needed' }],
    ['a switch that was not named', 'Transfer money, 100 EUR.', { amount: 100, express: true }],
    ['a choice that was not named', 'Transfer money, 100 EUR.', { amount: 100, reason: 'ordered_by_mistake' }],
  ])('are not taken for what they are not: %s', (_, text, args) => {
    expect(asksFor(text, args)).toBe(false);
  });

  it('may be two where the call takes both', () => {
    expect(asksFor('Transfer money to a@x.org and b@x.org.', { to: ['a@x.org', 'b@x.org'] })).toBe(true);
  });

  it('may stand beside a choice as it was named, a switch as it was named, and a default', () => {
    expect(asksFor('Transfer money by express, 100 EUR.', { amount: 100, express: true, currency: 'EUR' })).toBe(true);
    expect(asksFor('Transfer 100 EUR of money, ordered by mistake.', { amount: 100, reason: 'ordered_by_mistake' })).toBe(true);
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
    const labels = { returns: 'untrusted', reads: 'private', egress: false, decisive: ['amount'] } as const;
    const request = new UserRequest(['Transfer money: $100.']);
    expect(request.names({ ...bank, labels }, { amount: 100, memo: 'anything' })).toBe(true);
    expect(request.names(bank, { amount: 100, memo: 'anything' })).toBe(false);
  });
});
