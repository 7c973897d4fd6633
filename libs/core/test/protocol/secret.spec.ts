import { inspect } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { Secret } from '@toolloop/core';

describe('invariant 10: a secret', () => {
  const secret = new Secret({ key: 'sk-live-1' });

  it.each<[string, () => unknown]>([
    ['as JSON', () => JSON.stringify({ secret })],
    ['as text', () => String(secret)],
    ['in a template', () => `a ${secret as unknown as string}`],
    [
      'inspected, at any depth',
      () => inspect({ a: { secret } }, { showHidden: true, depth: null }),
    ],
    ['by its keys', () => JSON.stringify(Object.entries(secret))],
    [
      'by its property names',
      () => JSON.stringify(Reflect.ownKeys(secret).map((key): unknown => Reflect.get(secret, key))),
    ],
    ['spread', () => JSON.stringify(Object.assign({}, secret))],
  ])('invariant 10: shows nothing %s', (_, print) => {
    expect(print()).not.toContain('sk-live');
  });

  it('gives its value to who asks for it', () => {
    expect(secret.reveal()).toEqual({ key: 'sk-live-1' });
  });
});
