import { describe, expect, it } from '@jest/globals';
import { shop } from '../../examples/shop/shop.js';

describe('the shop', () => {
  it('keeps a row of one tenant from another, though its model asks for all', async () => {
    const [mine, theirs] = await shop();
    expect(mine?.toolCalls.map(({ id, status }) => [id, status])).toEqual([
      ['products__create', 'succeeded'],
      ['products__read', 'succeeded'],
    ]);
    expect(JSON.stringify(mine?.toolCalls[1]?.result)).toContain('"name":"Lamp"');
    expect(theirs?.toolCalls.map(({ status }) => status)).toEqual(['succeeded']);
    expect(JSON.stringify(theirs?.toolCalls[0]?.result)).not.toContain('Lamp');
  });
});
