import { randomUUID } from 'node:crypto';
import { afterEach, expect, it } from '@jest/globals';
import { Test, type TestingModule } from '@nestjs/testing';
import { ActorDirectory, ToolLoopModule } from '@toolloop/core';
import { RunService } from '@toolloop/core/runs';
import { DurableModule } from '@toolloop/durable';
import { ScriptedModel, text } from '@toolloop/testing';
import { Client } from 'pg';
import { createServerDatabase, describePostgres, onServer } from './databases.js';

const alice = { actor: { id: 'alice' }, tenant: 'acme' };

class Staff extends ActorDirectory {
  override find(id: string): Promise<{ readonly id: string }> {
    return Promise.resolve({ id });
  }
}

const cleanUps: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

async function start(url: string): Promise<TestingModule> {
  const module = await Test.createTestingModule({
    imports: [
      ToolLoopModule.forRoot({
        model: new ScriptedModel([text('Done.')]),
        policy: { version: 'v1', allow: ['*'] },
      }),
      DurableModule.forRoot({ url }),
    ],
    providers: [Staff],
  }).compile();
  module.useLogger(false);
  await module.init();
  cleanUps.push(() => module.close());
  return module;
}

/** A database, and the address of a user who has no rights there. */
async function guestIn(): Promise<{
  readonly url: string;
  readonly guestUrl: string;
  readonly guest: string;
}> {
  const { url, drop } = await createServerDatabase();
  const guest = `guest_${randomUUID().replaceAll('-', '')}`;
  await onServer(`create role ${guest} login password 's3cret'`);
  cleanUps.push(() => onServer(`drop role ${guest}`), drop);
  const address = new URL(url);
  [address.username, address.password] = [guest, 's3cret'];
  return { url, guestUrl: address.href, guest };
}

/** The statements of a remedy. */
const statementsIn = (message: string): string[] => message.match(/grant [^;]+;/g) ?? [];

async function granted(url: string, statements: readonly string[]): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  for (const statement of statements) await client.query(statement);
  await client.end();
}

const refusalOf = (url: string): Promise<string> =>
  start(url).then(
    () => 'started',
    (error: Error) => error.message,
  );

describePostgres('a user without rights', () => {
  it('is told what to grant where the schemas are to be made, and it suffices', async () => {
    const { url, guestUrl, guest } = await guestIn();
    const message = await refusalOf(guestUrl);
    expect(message).toMatch(
      new RegExp(
        `2 problems[^]*user ${guest} may not create the schema toolloop[^]*may not create the schema pgboss`,
      ),
    );
    expect(message).not.toContain('s3cret');
    await granted(url, statementsIn(message));
    await start(guestUrl);
  });

  it('is told what to grant where another owner has made them, and it suffices', async () => {
    const { url, guestUrl, guest } = await guestIn();
    await (await start(url)).close();
    const message = await refusalOf(guestUrl);
    expect(message).toMatch(
      new RegExp(
        `2 problems[^]*user ${guest} may not use the schema toolloop[^]*may not use the schema pgboss`,
      ),
    );
    await granted(url, statementsIn(message));
    const runs: RunService = (await start(guestUrl)).get(RunService);
    const runId = await runs.start({ ...alice, prompt: 'Go on.' });
    while ((await runs.get(runId, alice)).status !== 'ended')
      await new Promise((resolve) => setTimeout(resolve, 5));
    expect(await runs.get(runId, alice)).toMatchObject({ finishReason: 'stop' });
  });
});
