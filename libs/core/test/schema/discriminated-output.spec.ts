import { describe, expect, it } from '@jest/globals';
import type { Type as Class } from '@nestjs/common';
import type { Audience } from '@toolloop/protocol';
import { Exclude, Expose, instanceToPlain, Type } from 'class-transformer';
import { ProjectionCompiler } from '../../src/schema/result-projection.js';

abstract class Payment {
  @Expose() amount = 5;
}

class Card extends Payment {
  @Expose() last4 = '4242';
  @Expose({ groups: ['audit'] }) fingerprint = 'f00d';
  @Exclude() pan = '4242424242424242';
}

class Transfer extends Payment {
  @Expose() iban = 'CH93';
}

class InstantTransfer extends Transfer {
  @Expose() seconds = 3;
}

const KINDS = {
  discriminator: {
    property: 'kind',
    subTypes: [
      { name: 'card', value: Card },
      { name: 'transfer', value: Transfer },
    ],
  },
};

class Order {
  @Expose() @Type(() => Payment, KINDS) payment: unknown;
  @Expose() @Type(() => Payment, KINDS) payments: unknown;

  constructor(payment: unknown, payments: unknown = []) {
    this.payment = payment;
    this.payments = payments;
  }
}

function compiled(type: Class) {
  return new ProjectionCompiler().compile({ type, list: false, nullable: false });
}

function project(value: unknown, audience: Audience = 'model', type: Class = Order): unknown {
  return compiled(type).project(value, audience);
}

const CARD = { kind: 'card', amount: 5, last4: '4242' };
const TRANSFER = { kind: 'transfer', amount: 5, iban: 'CH93' };

describe('a property whose @Type() has a discriminator', () => {
  it('shows the fields of the class that a value has, and says which it is', () => {
    const order = new Order(new Card(), [new Card(), new Transfer()]);
    expect(project(order)).toEqual({ payment: CARD, payments: [CARD, TRANSFER] });
    expect(project(order)).toMatchObject(
      instanceToPlain(order, { strategy: 'excludeAll', groups: ['model'] }),
    );
  });

  it('shows the fields of the class that a plain object names', () => {
    const card = { kind: 'card', amount: 5, last4: '4242', pan: '4242424242424242', iban: 'CH93' };
    expect(project({ payment: card, payments: [{ ...TRANSFER, last4: '1' }] })).toEqual({
      payment: CARD,
      payments: [TRANSFER],
    });
  });

  it('shows what the class at its head exposes of a value that is none of them', () => {
    class Cash extends Payment {
      @Expose() drawer = 3;
    }
    expect(project(new Order(new Cash(), [{ kind: 'cash', amount: 5, drawer: 3 }]))).toEqual({
      payment: { amount: 5 },
      payments: [{ amount: 5 }],
    });
  });

  it('shows the nearest of the classes for an instance of one below them', () => {
    expect(project(new Order(new InstantTransfer()))).toMatchObject({
      payment: { amount: 5, iban: 'CH93' },
    });
  });

  it('shows each audience what that class shows it', () => {
    expect(project(new Order(new Card()), 'audit')).toEqual({
      payment: { ...CARD, fingerprint: 'f00d' },
      payments: [],
    });
    expect(project(new Order(new Card()), 'ui')).toEqual({ payment: CARD, payments: [] });
  });

  it('promises the fields of all its classes in the schema', () => {
    const { schema } = compiled(Order);
    const { $defs = {} } = schema;
    expect(Object.keys($defs)).toEqual(['Payment']);
    expect($defs.Payment).toEqual({
      type: ['object', 'null'],
      properties: {
        kind: { type: ['string', 'null'], enum: ['card', 'transfer', null] },
        amount: expect.anything(),
        last4: expect.anything(),
        iban: expect.anything(),
      },
      additionalProperties: false,
    });
  });

  it('may have a class at its head that shows nothing itself: a value that is none of the others is refused', () => {
    class Shape {
      area = 4;
    }
    class Circle extends Shape {
      @Expose() radius = 2;
    }
    class Drawing {
      @Expose()
      @Type(() => Shape, {
        discriminator: { property: 'form', subTypes: [{ name: 'circle', value: Circle }] },
      })
      shape: unknown;
    }
    expect(compiled(Drawing).findings).toEqual([]);
    expect(
      project(Object.assign(new Drawing(), { shape: new Circle() }), 'model', Drawing),
    ).toEqual({
      shape: { form: 'circle', radius: 2 },
    });
    expect(() =>
      project(Object.assign(new Drawing(), { shape: new Shape() }), 'model', Drawing),
    ).toThrow(/none of the classes/);
  });

  it('is a finding where one of its classes exposes nothing', () => {
    class Bare extends Payment {
      @Exclude() override amount = 5;
    }
    class Holder {
      @Expose()
      @Type(() => Payment, {
        discriminator: { property: 'kind', subTypes: [{ name: 'bare', value: Bare }] },
      })
      payment: unknown;
    }
    expect(compiled(Holder).findings).toEqual([
      expect.objectContaining({ problem: 'Bare exposes no property' }),
    ]);
  });
});
