import { describe, expect, it } from '@jest/globals';
import { TicketOffice, userOfHeader } from '../../src/identity/tickets.js';
import { User } from '../../src/identity/user.js';

const alice = new User('alice', 'Alice', 'acme', 'support');
const bob = new User('bob', 'Bob', 'globex', 'support');

class SteppedClock {
  private readonly start = Date.parse('2026-11-16T09:00:00Z');
  seconds = 0;

  now(): Date {
    return new Date(this.start + this.seconds * 1000);
  }
}

describe('a ticket', () => {
  it('is good for one use', () => {
    const office = new TicketOffice(new SteppedClock());
    const { ticket } = office.issue(alice);
    expect([office.redeem(ticket), office.redeem(ticket)]).toEqual([alice, undefined]);
  });

  it('lets its reader read on within its minute, and opens nothing by that', () => {
    const clock = new SteppedClock();
    const office = new TicketOffice(clock);
    const { ticket } = office.issue(alice);
    expect(office.redeem(ticket, true)).toBeUndefined();
    expect([office.redeem(ticket), office.redeem(ticket), office.redeem(ticket, true)]).toEqual([
      alice,
      undefined,
      alice,
    ]);
    clock.seconds = 60;
    expect(office.redeem(ticket, true)).toBeUndefined();
  });

  it('expires after a minute', () => {
    const clock = new SteppedClock();
    const office = new TicketOffice(clock);
    const [early, late] = [office.issue(alice).ticket, office.issue(alice).ticket];
    clock.seconds = 59;
    expect(office.redeem(early)).toBe(alice);
    clock.seconds = 60;
    expect(office.redeem(late)).toBeUndefined();
  });

  it('has 256 bits', () => {
    const { ticket } = new TicketOffice(new SteppedClock()).issue(alice);
    expect(Buffer.from(ticket, 'base64url')).toHaveLength(32);
  });

  it('is one of five per user; the oldest gives way', () => {
    const office = new TicketOffice(new SteppedClock());
    const others = office.issue(bob);
    const tickets = Array.from({ length: 6 }, () => office.issue(alice).ticket);
    expect(tickets.map((ticket) => office.redeem(ticket)?.id)).toEqual([
      undefined,
      ...Array.from({ length: 5 }, () => 'alice'),
    ]);
    expect(office.redeem(others.ticket)).toBe(bob);
  });
});

describe('a bearer token', () => {
  it('names a user, and the scheme in any case', () => {
    expect(userOfHeader('bearer demo-mia')).toMatchObject({
      id: 'mia',
      tenantId: 'acme',
      role: 'manager',
    });
  });

  it.each([
    undefined,
    '',
    'demo-alice',
    'Bearer',
    'Bearer ',
    'Basic demo-alice',
    'Bearer demo-alic',
    'Bearer demo-alice2',
    'Bearer demo-alice x',
  ])('is not "%s"', (header) => {
    expect(() => userOfHeader(header)).toThrow(expect.objectContaining({ status: 401 }));
  });
});
