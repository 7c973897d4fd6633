import { describe, expect, it } from '@jest/globals';
import { redactPersonal, redactSecrets } from '@toolloop/testing';

describe('what is stored of a text', () => {
  it.each([
    ['sk-proj-AbCdEf0123456789', '[secret]'],
    ['ghp_0123456789abcdefABCD', '[secret]'],
    ['xoxb-1234567890-abcdefghij', '[secret]'],
    ['AKIA0123456789ABCDEF', '[secret]'],
    ['Authorization: Bearer abc.def-ghi', 'Authorization: Bearer [secret]'],
    ['eyJhbGciOiJI.eyJzdWIiOiIx.c2ln', '[secret]'],
    ['-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----', '[secret]'],
  ])('has no key or token: %s', (text, stored) => {
    expect(redactSecrets(`Use ${text} now.`)).toBe(`Use ${stored} now.`);
    expect(redactPersonal(text)).toBe(stored);
  });

  it.each([
    ['ann.b+c@mail.acme.test', 'person@example.com'],
    ['DE89 3704 0044 0532 0130 00', '[iban]'],
    ['4111 1111 1111 1111', '[card]'],
    ['+49 30 1234567', '[phone]'],
  ])('has nothing that leads to a person where it becomes a case: %s', (text, stored) => {
    expect(redactPersonal(`It is ${text}, please.`)).toBe(`It is ${stored}, please.`);
    expect(redactSecrets(text)).toBe(text);
  });

  it.each([
    'skillfulnesses and npmregistrymirrors',
    'sk-learn-compatible-estimators',
    'order o-1042 of 2026-11-26T01:13:00.000Z',
    'run 1764119580123',
    'b3f1c2d4-5e6f-4a7b-8c9d-0e1f2a3b4c5d',
    'Version 1.2.3, 1,234.50 EUR',
  ])('has all else as it was: %s', (text) => {
    expect(redactPersonal(text)).toBe(text);
  });
});
