import { describe, expect, it } from '@jest/globals';
import type { Tool, ToolSpec } from '@toolloop/core';
import * as fc from 'fast-check';
import type { JSONSchema7 } from 'json-schema';
import { searchWords, ToolIndex } from '../../../src/plugins/injection/tool-index.js';
import { SEARCH_TOOL } from '../../../src/plugins/strategies/search-tool.js';

function toolOf(declaredId: string, description = '', inputSchema: JSONSchema7 = {}): Tool {
  const spec: ToolSpec = {
    ...SEARCH_TOOL.spec,
    id: declaredId,
    declaredId,
    description,
    inputSchema,
  };
  return { ...SEARCH_TOOL, spec };
}

const idsOf = (tools: readonly Tool[]) => tools.map(({ spec }) => spec.id);

describe('the words of a search', () => {
  it.each([
    ['getRecentOrders', 'get recent order'],
    ['crm__search_customers', 'crm search customer'],
    ['HTTPServer2Go', 'http server2 go'],
    ['Ausführliche Übersicht', 'ausfuhrliche ubersicht'],
    ['addresses boxes policies status class bus', 'address box policy status class bus'],
    ['How do I find the order of a buyer?', 'find order buyer'],
    ['', ''],
  ])('has the words of "%s": "%s"', (text, words) => {
    expect(searchWords(text).join(' ')).toBe(words);
  });
});

describe('the index of tools', () => {
  const refund = toolOf('payments__refundOrder', 'Pays money back to a customer.', {
    properties: {
      orderId: { type: 'string' },
      reason: { type: 'string', description: 'Why the buyer complains' },
    },
  });
  const ship = toolOf('warehouse__ship', 'Ships an order.', {
    properties: {
      parcels: {
        type: 'array',
        items: { type: 'object', properties: { weightInGrams: { type: 'number' } } },
      },
    },
  });
  const mail = toolOf(
    'mail__send',
    'Sends a mail about a refund, an order or anything else there is to tell somebody about.',
  );
  const index = new ToolIndex([mail, ship, refund]);

  it.each<[string, string, readonly Tool[]]>([
    ['the id, which weighs more than a description', 'refund', [refund, mail]],
    ['the description', 'money', [refund]],
    ['the name of a parameter', 'parcel', [ship]],
    ['the description of a parameter', 'complains', [refund]],
    ['the name of a nested parameter', 'grams', [ship]],
    ['several words, of which more are better', 'ship the order', [ship, refund, mail]],
    ['a question', 'How do I REFUND an Order?', [refund, mail, ship]],
  ])('finds by %s', (_, query, found) => {
    expect(idsOf(index.search(query, 10)).slice(0, found.length)).toEqual(idsOf(found));
  });

  it.each(['', '   ', '?!', 'zebra', 'constructor __proto__'])(
    'finds nothing for "%s"',
    (query) => {
      expect(index.search(query, 10)).toEqual([]);
    },
  );

  it('puts what is short and about it ahead of what is long or says one word over and over', () => {
    const [short, long] = [
      toolOf('a', 'Weighs a parcel.'),
      toolOf('b', `Weighs parcels, ${'letters or pallets and '.repeat(20)}`),
    ];
    const stuffed = toolOf('c', 'parcel '.repeat(50));
    expect(new ToolIndex([long, stuffed, short]).search('weigh the parcel', 3)).toEqual([
      short,
      long,
      stuffed,
    ]);
  });

  it('leaves out what is not wanted before it counts', () => {
    expect(index.search('order', 1, (tool) => tool !== ship && tool !== refund)).toEqual([mail]);
  });

  it('is empty where there are no tools', () => {
    expect(new ToolIndex([]).search('order', 3)).toEqual([]);
  });

  it('stands schemas of any depth, and true and false as schemas', () => {
    let schema: JSONSchema7 = { properties: { deepest: true } };
    for (let level = 0; level < 5000; level += 1)
      schema = { properties: { inner: schema, no: false } };
    expect(() => new ToolIndex([toolOf('deep', '', schema)]).search('inner', 1)).not.toThrow();
  });

  const word = fc.constantFrom(
    'order',
    'customer',
    'refund',
    'ship',
    'mail',
    'list',
    'find',
    'Orders',
    'été',
    '日本',
    '',
  );
  const words = fc.array(word, { maxLength: 8 }).map((all) => all.join(' '));
  const catalog = fc
    .array(words, { maxLength: 30 })
    .map((all) => all.map((description, at) => toolOf(`t${at}`, description)));

  it('finds, for any catalog and query, exactly the wanted tools that share a word, none twice and no more than asked', () => {
    fc.assert(
      fc.property(
        catalog,
        words,
        fc.integer({ min: 1, max: 40 }),
        fc.func(fc.boolean()),
        (tools, query, most, isWanted) => {
          const wanted = (tool: Tool) => isWanted(tool.spec.id);
          const found = new ToolIndex(tools).search(query, most, wanted);
          const asked = new Set(searchWords(query));
          const sharing = tools.filter(
            (tool) =>
              wanted(tool) && searchWords(tool.spec.description).some((one) => asked.has(one)),
          );
          expect(new Set(found).size).toBe(found.length);
          expect(found).toHaveLength(Math.min(most, sharing.length));
          expect(found.filter((tool) => !sharing.includes(tool))).toEqual([]);
        },
      ),
    );
  });

  it('ranks, for any catalog and query, the beginning of a longer list like a shorter one', () => {
    fc.assert(
      fc.property(catalog, words, fc.integer({ min: 1, max: 30 }), (tools, query, most) => {
        const index30 = new ToolIndex(tools);
        expect(index30.search(query, most)).toEqual(index30.search(query, 40).slice(0, most));
      }),
    );
  });
});
