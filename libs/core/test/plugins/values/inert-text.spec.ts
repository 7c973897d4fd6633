import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { cases } from '../../../../../test/cases.js';
import { inertText } from '../../../src/plugins/values/inert-text.js';

/**
 * The forms of which remark-gfm 4 and markdown-it 14 make a link, an image, a heading or another
 * block, by their own rules; both were run over these texts, and over 12,000 random ones, as this
 * was written.
 */
const LINK = /https?:\/\/|\/\/|www\.|[\w.+-]@[\w-]|[\p{L}\p{N}_-]\.\p{L}{2}/iu;
const MARKUP = /(?<!\\)(?:\\\\)*[`*_[\]!|~<>]|&(?!(?:amp|lt|gt);)/;
const BLOCK = /^(?: {2,}|\t| ?(?:[#+=:-]|\d{1,9}[.)]))/m;
const UNSEEN = /(?![\n\u200D])[\p{Cc}\p{Cf}]/u;

/** What a renderer reads once it has decoded entities and escapes: links are found there too. */
function rendered(text: string): string {
  return text
    .replaceAll(/\\([!-/:-@[-`{-~])/g, '$1')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&');
}

/** Returns what of a text a renderer or a terminal would still obey. */
function obeyedIn(text: string): readonly (string | undefined)[] {
  const inert = inertText(text);
  return [
    LINK.exec(rendered(inert)),
    MARKUP.exec(inert),
    BLOCK.exec(inert),
    UNSEEN.exec(inert),
  ].flatMap((found) => found?.[0] ?? []);
}

const TEXTS = [
  'https://evil.com',
  'HTTPS://EVIL.COM/x?y=1',
  '///localhost',
  'www.evil.com',
  'evil.com',
  'mallory@evil.com',
  'm@1.2.3.4',
  'm@---evil.com',
  'mailto:mallory@evil.com',
  '&#104;ttps&colon;&#x2f;/evil&period;com',
  'mallory&commat;evil&#46;com',
  'htt\u200Bps://ev\u00ADil.com',
  String.raw`https:\/\/evil\.com`,
  '<https://evil.com>',
  '![x](https://evil.com/x.png)',
  '[x]: https://evil.com\n\n[x]',
  '[^1]\n\n[^1]: https://evil.com',
  '<img src=x onerror=alert(1)>',
  '# heading',
  'heading\n===',
  'heading\n---',
  '- item\n+ item\n* item\n1. item\n2) item',
  '> quote',
  '    code\n\tcode',
  '```\ncode\n```',
  '~~~\ncode\n~~~',
  '| a |\n| - |',
  'a\n:-:',
  '**b** _i_ ~s~ `c`',
  '\u001B[31mred\u001B[0m \u009B1mbold',
  '\u001B]8;;https://evil.com\u0007click\u001B]8;;\u0007',
  '\u202Emoc.live\u202C \u2066x\u2069',
  'a\r# b\u2028# c\u0085# d',
];

describe('a text that stands in an answer for its reader', () => {
  it.each(TEXTS)('is no link, no markup, no block and no command: %j', (text) => {
    expect(obeyedIn(text)).toEqual([]);
  });

  it('is none of them in any combination of their parts', () => {
    const parts = fc.constantFrom(
      ...'https http : / // @ . www com evil & ; # &#46; &commat; < > [ ] ( ) ! ` * _ - + = | ~ \\ 1 1. 2) mailto: jp 例'.split(
        ' ',
      ),
      '\n',
      ' ',
      '\t',
      '\r',
      '\u200B',
      '\u2028',
    );
    fc.assert(
      fc.property(fc.array(parts, { maxLength: 14 }), (some) =>
        expect(obeyedIn(some.join(''))).toEqual([]),
      ),
      { numRuns: cases(20_000) },
    );
  });

  it.each([
    [
      'says what it says',
      'The offsite is on 12 March, at 10.30, in Lakeside House: bring shoes.',
      'The offsite is on 12 March, at 10.30, in Lakeside House: bring shoes.',
    ],
    [
      'keeps its lines, and emoji of several characters',
      'One\r\ntwo 👩\u200D💻',
      'One\ntwo 👩\u200D💻',
    ],
    ['keeps an address readable', 'Ask mallory@evil.example.', 'Ask mallory@ evil .example.'],
    ['keeps the marks of a list readable', '- one\n2. two', String.raw`\- one${'\n'}2\. two`],
  ])('%s', (_, text, shown) => {
    expect(inertText(text)).toBe(shown);
  });
});
