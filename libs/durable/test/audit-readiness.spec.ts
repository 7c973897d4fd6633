import { describe, expect, it } from '@jest/globals';
import { DurableHealth, SqlStores } from '@toolloop/durable';
import { AuditProbe } from '../src/durable-health.js';
import { onEachDatabase } from './each-database.js';

onEachDatabase('the readiness of a process that keeps an audit', (database) => {
  it('is good while the audit can be written, of which nothing is left, and not once the table refuses entries', async () => {
    const healthOf = (): DurableHealth =>
      new DurableHealth(database(), { isReliable: true }, new AuditProbe(database()));
    const health = healthOf();
    expect(await health.readiness()).toEqual({
      isReady: true,
      database: 'up',
      policy: 'readable',
      audit: 'writable',
      isLeaving: false,
    });
    expect(await new SqlStores(database()).audit.head('toolloop-readiness')).toBeUndefined();
    await database().query(
      `create function refuse_entry() returns trigger language plpgsql as $$ begin raise exception 'new row violates row-level security policy'; end $$`,
    );
    await database().query(
      'create trigger refuse_entries before insert on toolloop.audit for each row execute function refuse_entry()',
    );
    expect(await healthOf().readiness()).toMatchObject({
      isReady: false,
      database: 'up',
      audit: 'unwritable',
    });
    await database().query('drop trigger refuse_entries on toolloop.audit');
    expect(await healthOf().readiness()).toMatchObject({ isReady: true, audit: 'writable' });
  });
});

describe('the readiness of a process without an audit', () => {
  it('says nothing of one', async () => {
    expect(
      await new DurableHealth({ query: () => Promise.resolve([]) }).readiness(),
    ).not.toHaveProperty('audit');
  });
});
