import { describe, expect, it } from '@jest/globals';
import { closestTo } from '../../src/catalog/tool-selection.js';

const known = ['crm__searchCustomers', 'crm__deleteCustomer', 'orders__cancel', 'customer_*_getAverageSpend'];

describe('closestTo', () => {
  it.each([
    ['crm__serchCustomers', 'crm__searchCustomers'],
    ['CRM__SEARCHCUSTOMERS', 'crm__searchCustomers'],
    ['searchCustomers', 'crm__searchCustomers'],
    ['orders_cancel', 'orders__cancel'],
    ['customer_c1_getAverageSpend', 'customer_*_getAverageSpend'],
  ])('takes %s for %s', (wrong, right) => {
    expect(closestTo(wrong, known)[0]).toBe(right);
  });

  it('names none when none is close', () => {
    expect(closestTo('weather', known)).toEqual([]);
    expect(closestTo('crn__*', ['remote__run'])).toEqual([]);
  });

  it('names at most as many as wanted, the closest first', () => {
    expect(closestTo('a1', ['a4', 'a3', 'a2', 'a12'], 2)).toEqual(['a12', 'a2']);
  });

  it('does not dwell on a name of a million characters', () => {
    const before = performance.now();
    const many = Array.from({ length: 200 }, (_, index) => `crm__searchCustomers${index}`);
    expect(closestTo('x'.repeat(1_000_000), many)).toEqual([]);
    expect(performance.now() - before).toBeLessThan(2000);
  });
});
