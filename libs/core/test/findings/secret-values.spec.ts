import { describe, expect, it } from '@jest/globals';
import { defineOptions, inWords } from '../../src/findings/options.js';
import { listOf, OBJECT, TEXT, WHOLE_ABOVE_ZERO } from '../../src/findings/option-rules.js';

const LONG = {
  ...TEXT,
  accept: (value: unknown) => typeof value === 'string' && value.length >= 32,
  wanted: 'a text of 32 characters or more',
};
const TABLE = defineOptions<Record<string, unknown>>({
  secret: LONG,
  stateKey: LONG,
  apiKey: LONG,
  password: LONG,
  accessToken: LONG,
  headers: OBJECT,
  env: OBJECT,
  keys: listOf(LONG, 'a list of keys'),
  url: WHOLE_ABOVE_ZERO,
  name: WHOLE_ABOVE_ZERO,
} as never);

function toldOf(options: object): string {
  return JSON.stringify(TABLE.findings(options, 'Module'));
}

describe('a finding about an option', () => {
  it.each(['secret', 'stateKey', 'apiKey', 'password', 'accessToken', 'headers', 'env', 'keys'])(
    'never prints the value of %s',
    (name) => {
      const told = toldOf({ [name]: 'hunter2-too-short' });
      expect(told).toContain('a text that is not shown');
      expect(told).not.toContain('hunter2');
    },
  );

  it('prints no password within an address', () => {
    expect(toldOf({ url: 'postgres://desk:hunter2@db.example.com/desk' })).not.toContain('hunter2');
    expect(inWords('postgres://desk:hunter2@db.example.com/desk')).toBe(
      '"postgres://…@db.example.com/desk"',
    );
  });

  it('still prints what is no secret', () => {
    expect(toldOf({ name: 'seven' })).toContain('seven');
  });
});
