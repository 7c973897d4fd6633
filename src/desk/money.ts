import { Expose } from 'class-transformer';

export enum Currency {
  Euro = 'EUR',
  Dollar = 'USD',
}

const CENTS = 100;

/** An amount of money. It is whole cents inside, so that no sum is ever off by a fraction. */
export class Money {
  /** Decimal with two digits, e.g. `450.95`. */
  @Expose() readonly amount: string;
  @Expose() readonly currency: Currency;

  constructor(
    readonly cents: number,
    currency: Currency,
  ) {
    if (!Number.isSafeInteger(cents)) throw new RangeError(`Money is whole cents, not ${cents}.`);
    const digits = String(Math.abs(cents)).padStart(3, '0');
    this.amount = `${cents < 0 ? '-' : ''}${digits.slice(0, -2)}.${digits.slice(-2)}`;
    this.currency = currency;
  }

  /** Reads a decimal such as `12`, `12.5` or `12.50`. */
  static parse(amount: string, currency: Currency): Money {
    const [, whole = '', fraction = ''] = /^(\d{1,12})(?:\.(\d{1,2}))?$/.exec(amount) ?? [];
    if (whole === '') throw new RangeError(`"${amount}" is not an amount such as 12.50.`);
    return new Money(Number(whole) * CENTS + Number(fraction.padEnd(2, '0')), currency);
  }

  static sum(amounts: readonly Money[], currency: Currency): Money {
    return amounts.reduce((total, amount) => total.plus(amount), new Money(0, currency));
  }

  plus(other: Money): Money {
    if (other.currency !== this.currency)
      throw new RangeError(`${this.currency} and ${other.currency} cannot be added.`);
    return new Money(this.cents + other.cents, this.currency);
  }

  times(count: number): Money {
    return new Money(this.cents * count, this.currency);
  }

  /** Half a cent is rounded up. */
  dividedBy(parts: number): Money {
    return new Money(Math.floor((2 * this.cents + parts) / (2 * parts)), this.currency);
  }
}
