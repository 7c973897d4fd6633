import { describe, expect, it } from '@jest/globals';
import { cpuSecondsOf } from '../fixtures/time.js';
import { closestTo, closestTools } from '../../src/catalog/closest-tools.js';

const known = [
  'crm__searchCustomers',
  'crm__deleteCustomer',
  'orders__cancel',
  'customer_*_getAverageSpend',
];

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
    expect(closestTo('a1', ['a4', 'a3', 'a2', 'a12'], { most: 2 })).toEqual(['a12', 'a2']);
  });

  it.each([
    [
      'search_customer',
      ['delete_customer', 'find_customers', 'orders__cancel'],
      ['find_customers', 'delete_customer'],
    ],
    [
      'crm__searchCustomer',
      ['crm__deleteCustomer', 'crm__findCustomers'],
      ['crm__findCustomers', 'crm__deleteCustomer'],
    ],
    [
      'getCustomerOrders',
      ['shop__listOrdersOfCustomer', 'shop__cancelOrder'],
      ['shop__listOrdersOfCustomer'],
    ],
    ['crm__lookupInvoice', ['billing__invoice_get', 'crm__archive'], ['billing__invoice_get']],
  ])(
    'compares %s by the words it shares with %j, and offers reads before writes',
    (wrong, names, right) => {
      expect(closestTo(wrong, names, { isRead: (name) => !/delete|cancel/.test(name) })).toEqual(
        right,
      );
    },
  );

  it.each([
    ['get_customers', ['set_customer', 'find_customer'], ['find_customer', 'set_customer']],
    ['crm__get*', ['crm__set', 'crm__getter'], ['crm__getter', 'crm__set']],
    [
      'search_customer_orders',
      ['delete_customer_orders', 'get_customer_order'],
      ['get_customer_order', 'delete_customer_orders'],
    ],
  ])('offers the read first for %s among %j', (wrong, names, right) => {
    expect(closestTo(wrong, names, { isRead: (name) => /find|get/.test(name) })).toEqual(right);
  });

  it('prefers the closest write to a read that shares fewer words', () => {
    const closest = closestTo('delete_custmer', ['find_customers', 'delete_customer'], {
      isRead: (name) => name.startsWith('find'),
    });
    expect(closest[0]).toBe('delete_customer');
  });

  it.each([
    ['dekc__*', 'desk__*'],
    ['custmer_*_*', 'customer_*_*'],
    ['crn__search*', 'crm__searchCustomers'],
  ])('takes the glob %s for %s', (wrong, right) => {
    const ids = [...known, 'desk__open', 'desk__close'];
    expect(closestTools(wrong, ids)[0]).toBe(right);
  });

  it('does not dwell on a name of a million characters', () => {
    const many = Array.from({ length: 2_000 }, (_, index) => `crm__searchCustomers${index}`);
    // to compare them all takes a minute
    expect(
      cpuSecondsOf(() => expect(closestTo('x'.repeat(1_000_000), many)).toEqual([])),
    ).toBeLessThan(5);
  });
});
