import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { Currency, Money } from '../../src/desk/money.js';

const euros = (cents: number): Money => new Money(cents, Currency.Euro);

describe('Money', () => {
  it.each([
    [0, '0.00'],
    [5, '0.05'],
    [45_095, '450.95'],
    [-7, '-0.07'],
  ])('shows %i cents as %s', (cents, amount) => {
    expect(euros(cents).amount).toBe(amount);
  });

  it('rounds half a cent up', () => {
    expect([
      euros(566_625).dividedBy(12).amount,
      euros(1).dividedBy(2).amount,
      euros(1).dividedBy(3).amount,
    ]).toEqual(['472.19', '0.01', '0.00']);
  });

  it('adds without the errors of floating point', () => {
    expect(Money.sum([euros(10), euros(20)], Currency.Euro).amount).toBe('0.30');
  });

  it('reads what it shows', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 1e11 }), (cents) => {
        expect(Money.parse(euros(cents).amount, Currency.Euro).cents).toBe(cents);
      }),
    );
  });

  it.each(['', '-1', '1.234', '1e3', ' 1'])('does not read "%s"', (amount) => {
    expect(() => Money.parse(amount, Currency.Euro)).toThrow(RangeError);
  });

  it('adds no two currencies', () => {
    expect(() => euros(1).plus(new Money(1, Currency.Dollar))).toThrow(
      'EUR and USD cannot be added.',
    );
  });

  it('is whole cents', () => {
    expect(() => euros(0.5)).toThrow(RangeError);
  });
});
