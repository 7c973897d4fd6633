import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { ConfigurationError } from '@toolloop/core';
import { pageOfFinding } from '../../libs/protocol/src/errors.js';
import { findingsByPage, withFindings, withoutRemedy } from './fix-pages.js';

const pages = [...findingsByPage()];

describe('the pages about findings', () => {
  it('are named by the error that lists findings, each below its remedy', () => {
    const { message } = new ConfigurationError([
      { at: 'OrderTools.find', problem: 'The tool declares no effect.', remedy: 'Add one.' },
      { at: 'somewhere', problem: 'Something that no page is about.', remedy: 'Think.' },
    ]);
    expect(message.split('\n').slice(3)).toEqual([
      '     node_modules/@toolloop/core/docs/fix/tool-incomplete.md',
      '  2. somewhere: Something that no page is about.',
      '     Think.',
      '     node_modules/@toolloop/core/docs/fix/start-refused.md',
    ]);
  });

  it.each([
    ['It has no "identity".', 'option-refused'],
    ['There is no option "prefixes".', 'option-refused'],
    ['There is no option "console".', 'option-refused'],
    ['The option "apiKey" is 5.', 'option-refused'],
    ['unknown field "rols"; did you mean "roles"?', 'option-refused'],
    [
      'The schema of FindOrders needs the package class-validator, which is not installed',
      'start-refused',
    ],
    [
      'The @Expose() of Order needs the package class-transformer, which is not installed',
      'start-refused',
    ],
  ])('are chosen by what is wrong, not by the names that are quoted: %s', (problem, page) => {
    expect(pageOfFinding({ problem })).toBe(page);
  });

  it('leave few findings to the page about all others', () => {
    const all = pages.flatMap(([, findings]) => findings).length;
    expect(all).toBeGreaterThan(250);
    expect((new Map(pages).get('start-refused') ?? []).length / all).toBeLessThan(0.2);
  });

  it.each(pages)('%s lists what the sources find', (page, findings) => {
    const file = `docs/fix/${page}.md`;
    expect([file, existsSync(file)]).toEqual([file, true]);
    const text = readFileSync(file, 'utf8');
    const current = withFindings(text, findings);
    if (process.env['UPDATE_PICTURES'] === '1') writeFileSync(file, current);
    expect(readFileSync(file, 'utf8')).toBe(current);
    expect(current).toContain('| what is found |');
    expect(withoutRemedy(current)).toEqual([]);
  });
});
