import { describe, expect, it } from '@jest/globals';
import { readQuestion } from '../src/question.js';
import { areSameAction, knows, stem, stemsOf, wordsOf } from '../src/words.js';

function read(text: string, vocabulary: readonly string[] = []): string[] {
  const { mentions } = readQuestion(text, new Set(vocabulary.map(stem)));
  return mentions.map(({ kind, value }) => `${kind} ${value}`);
}

describe('words', () => {
  it('splits every case style', () => {
    expect(wordsOf('getHTTPStatus_of-order2')).toEqual(['get', 'http', 'status', 'of', 'order2']);
  });

  it.each([
    ['orders', 'order'],
    ['cancelled', 'cancel'],
    ['cancellation', 'cancel'],
    ['translated', 'translation'],
    ['prices', 'price'],
    ['cities', 'city'],
    ['spent', 'spend'],
    ['monthly', 'month'],
    ['calling', 'calls'],
    ['availability', 'available'],
    ['shipped', 'ships'],
  ])('gives %s and %s one stem', (one, other) => {
    expect(stem(one)).toBe(stem(other));
  });

  it('drops words without meaning and knows synonyms', () => {
    expect(stemsOf('What are the latest orders of him?')).toEqual(['latest', 'order']);
    expect(knows(new Set(stemsOf('recent orders')), stem('latest'))).toBe(0.7);
    expect(areSameAction(stem('remove'), stem('delete'))).toBe(true);
    expect(areSameAction(stem('sum'), stem('add'))).toBe(false);
  });
});

describe('what a user wrote', () => {
  it.each<[string, string[]]>([
    ["What is John Smith's average spend?", ['name John Smith']],
    ["Is O'Brien, Jean-Luc or Ada here?", ["name O'Brien", 'name Jean-Luc', 'name Ada']],
    [
      'say "it is \'fine\'" to c-123, E42 and #17',
      ["quoted it is 'fine'", 'id c-123', 'id E42', 'id 17'],
    ],
    ['from 2026-03-01 to 2026-03-02', ['date 2026-03-01', 'date 2026-03-02']],
    ['1,234.50 and -7 and 2', ['number 1234.50', 'number -7', 'number 2']],
    [
      'mail bob.o@example.co.uk about https://example.com/a?b=1.',
      ['email bob.o@example.co.uk', 'url https://example.com/a?b=1'],
    ],
    ['read /etc/hosts and report.pdf', ['id /etc/hosts', 'id report.pdf']],
  ])('%s', (text, mentions) => {
    expect(read(text)).toEqual(mentions);
  });

  it('takes no kind of thing for a name', () => {
    expect(read('Show all Orders of Customer John Smith', ['order', 'customer'])).toEqual([
      'name John Smith',
    ]);
    expect(read('show the orders of all customers', ['order', 'customer'])).toEqual([]);
  });

  it('knows that what is joined belongs together', () => {
    const { mentions } = readQuestion('spend of John Smith, Jane Doe and Ada in Rome', new Set());
    const groups = mentions.filter(({ kind }) => kind === 'name').map(({ group }) => group);
    expect(groups.slice(0, 3)).toEqual([groups[0], groups[0], groups[0]]);
    expect(groups[3]).not.toBe(groups[0]);
  });
});
