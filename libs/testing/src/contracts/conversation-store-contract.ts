import assert from 'node:assert/strict';
import { setTimeout as wait } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Message } from '@toolloop/core';
import type { ConversationKey, ConversationStore, LeftInput } from '@toolloop/core/stores';
import {
  atOnce,
  AWKWARD_TEXTS,
  runContract,
  type Contract,
  type ContractRunner,
  type StoreUnderTest,
  type Trial,
} from './contract.js';

/** The behaviour that every `ConversationStore` must show. */
export function conversationStoreContract(
  name: string,
  make: () => Promise<StoreUnderTest<ConversationStore>>,
  runner: ContractRunner,
): void {
  runContract(CONTRACT, name, make, runner);
}

type ConversationTrial = Trial<ConversationStore>;

/** Makes the messages that one run adds. */
function turn(words: string): readonly Message[] {
  return [
    { role: 'user', content: words },
    {
      role: 'assistant',
      content: '',
      toolCalls: [{ toolCallId: `call ${words}`, name: 'a', arguments: '{}' }],
      labels: LABELS,
    },
    {
      role: 'tool',
      toolCallId: `call ${words}`,
      toolName: 'a',
      content: [{ type: 'text', text: words }],
      labels: LABELS,
    },
    { role: 'assistant', content: words, providerData: { openai: { id: [words, null] } } },
  ];
}

const LABELS = { returns: 'untrusted', reads: 'private' } as const;

function keyOf(tenant: string, more: Partial<ConversationKey> = {}): ConversationKey {
  return { tenant, actorId: 'alice', conversationId: 'c', ...more };
}

const CONTRACT: Contract<ConversationStore> = {
  port: 'ConversationStore',
  cases: [
    { name: 'returns the appended messages in order', check: keepsOrder },
    { name: 'replaces the messages of a run in their place', check: replaces },
    { name: 'keeps the turns of concurrent appends whole', check: keepsTurnsWhole },
    { name: 'returns nothing to another tenant or actor, or for another id', check: separates },
    { name: 'keeps awkward texts, in ids as well', check: keepsAwkwardTexts },
    {
      name: 'lists one actor’s conversations page by page, the last used first',
      check: listsInPages,
    },
    { name: 'reads messages page by page', check: readsInPages },
    { name: 'deletes one conversation and no other', check: deletesOne },
    { name: 'finds a turn by its run and by the client’s id of its words', check: findsTurns },
    { name: 'cuts turns for one of many runs, and keeps them for it', check: cutsTurns },
    { name: 'keeps what a cut run appends out of the conversation', check: keepsCutRunsOut },
    { name: 'gives the turns that a run has cut to the one that takes over', check: givesCutsOn },
    {
      name: 'gives the turn in a conversation to one of many runs that ask at once',
      check: givesOneTurn,
    },
    { name: 'gives the turn on once it was given back or has expired', check: givesTurnsOn },
    {
      name: 'keeps words for the run that has the turn, until one run has taken them',
      check: keepsInputs,
    },
    {
      name: 'drops the oldest messages first, and no call without its result',
      check: forgetsWholeTurns,
    },
  ],
  restart: {
    before: ({ store, tenant }) => store.append(keyOf(tenant), turn('before')),
    after: async (store, { tenant }) =>
      assert.deepEqual(await store.load(keyOf(tenant)), turn('before')),
  },
};

async function keepsOrder({ store, other, tenant }: ConversationTrial): Promise<void> {
  assert.deepEqual(await store.load(keyOf(tenant)), []);
  await store.append(keyOf(tenant), turn('one'));
  await other.append(keyOf(tenant), turn('two'));
  await store.append(keyOf(tenant), []);
  assert.deepEqual(await store.load(keyOf(tenant)), [...turn('one'), ...turn('two')]);
}

async function replaces(trial: ConversationTrial): Promise<void> {
  const { store, other, tenant } = trial;
  await store.append(keyOf(tenant), turn('first'), 'run 1');
  await store.append(keyOf(tenant), turn('second'), 'run 2');
  await other.append(keyOf(tenant), turn('first again'), 'run 1');
  await atOnce(trial, 8, (one) => one.append(keyOf(tenant), turn('third'), 'run 3'));
  await store.append(keyOf(tenant, { conversationId: 'another' }), turn('elsewhere'), 'run 1');
  assert.deepEqual(await store.load(keyOf(tenant)), [
    ...turn('first again'),
    ...turn('second'),
    ...turn('third'),
  ]);
}

async function keepsTurnsWhole(trial: ConversationTrial): Promise<void> {
  const key = keyOf(trial.tenant);
  await atOnce(trial, 20, (store, index) => store.append(key, turn(`turn ${index}`)));
  const messages = await trial.store.load(key);
  assert.equal(messages.length, 80);
  const turns = Array.from({ length: 20 }, (_, index) => messages.slice(4 * index, 4 * index + 4));
  for (let index = 0; index < turns.length; index += 1)
    assert.equal(turns.filter((one) => isDeepStrictEqual(one, turn(`turn ${index}`))).length, 1);
}

async function separates({ store, tenant, otherTenant }: ConversationTrial): Promise<void> {
  await store.append(keyOf(tenant), turn('mine'));
  const others = [
    keyOf(otherTenant),
    keyOf(tenant, { actorId: 'bob' }),
    keyOf(tenant, { conversationId: 'C' }),
  ];
  for (const key of others) assert.deepEqual(await store.load(key), []);
  await store.append(keyOf(tenant, { actorId: 'a","b', conversationId: 'c' }), turn('theirs'));
  assert.deepEqual(await store.load(keyOf(tenant, { actorId: 'a', conversationId: 'b","c' })), []);
}

async function keepsAwkwardTexts({ store, other, tenant }: ConversationTrial): Promise<void> {
  for (const text of AWKWARD_TEXTS)
    await store.append(keyOf(tenant, { conversationId: text, actorId: text }), turn(text));
  for (const text of AWKWARD_TEXTS)
    assert.deepEqual(
      await other.load(keyOf(tenant, { conversationId: text, actorId: text })),
      turn(text),
    );
}

async function forgetsWholeTurns({ store, tenant }: ConversationTrial): Promise<void> {
  for (let index = 0; index < 60; index += 1)
    await store.append(keyOf(tenant), turn(`turn ${index}`));
  const messages = await store.load(keyOf(tenant));
  assert.equal(messages[0]?.role, 'user');
  assert.equal(messages.at(-1)?.content, 'turn 59');
  assert.ok(messages.length >= 100 && messages.length <= 240, `${messages.length} messages`);
}

async function listsInPages({
  store,
  other,
  tenant,
  otherTenant,
}: ConversationTrial): Promise<void> {
  const owner = { tenant, actorId: 'alice' };
  for (const conversationId of ['a', 'b', ...AWKWARD_TEXTS, 'a'])
    await store.append(keyOf(tenant, { conversationId }), turn(conversationId));
  await store.append(keyOf(tenant, { conversationId: 'nothing said' }), []);
  await store.append(keyOf(tenant, { actorId: 'bob' }), turn('his'));
  await store.append(keyOf(otherTenant), turn('theirs'));
  const [newest, ...rest] = await other.list(owner);
  assert.deepEqual([newest?.conversationId, newest?.messages], ['a', 8]);
  assert.ok(Date.parse(newest?.updatedAt ?? '') > 0);
  const ids = rest.map(({ conversationId }) => conversationId);
  assert.deepEqual(ids, [...AWKWARD_TEXTS.toReversed(), 'b']);
  const page = await store.list(owner, { after: 'a', limit: 3 });
  assert.deepEqual(
    page.map(({ conversationId }) => conversationId),
    ids.slice(0, 3),
  );
  assert.deepEqual(await store.list(owner, { after: 'b' }), []);
}

async function readsInPages({ store, other, tenant }: ConversationTrial): Promise<void> {
  const all = ['one', 'two', 'three'].flatMap(turn);
  for (const words of ['one', 'two', 'three']) await store.append(keyOf(tenant), turn(words));
  for (const [from, limit] of [
    [0, 5],
    [3, 4],
    [5, 100],
    [11, 1],
    [0, 0],
    [12, 3],
  ] as const)
    assert.deepEqual(
      await other.read(keyOf(tenant), { from, limit }),
      all.slice(from, from + limit),
    );
  assert.deepEqual(await store.read(keyOf(tenant, { actorId: 'bob' }), { from: 0, limit: 5 }), []);
}

async function deletesOne({ store, other, tenant, otherTenant }: ConversationTrial): Promise<void> {
  const others = [
    keyOf(otherTenant),
    keyOf(tenant, { actorId: 'bob' }),
    keyOf(tenant, { conversationId: 'd' }),
  ];
  for (const key of [keyOf(tenant), ...others]) await store.append(key, turn('x'));
  assert.equal(await other.delete(keyOf(tenant)), true);
  assert.equal(await store.delete(keyOf(tenant)), false);
  assert.deepEqual(await store.load(keyOf(tenant)), []);
  for (const key of others) assert.deepEqual(await store.load(key), turn('x'));
}

/** Makes the messages of a run, of which the user's has an id of the client's. */
function named(words: string): readonly Message[] {
  const [, ...answer] = turn(words);
  return [{ role: 'user', content: words, messageId: `message ${words}` }, ...answer];
}

/** Appends the turns of three runs. */
async function appendThree({ store, tenant, otherTenant }: ConversationTrial): Promise<void> {
  for (const words of ['one', 'two', 'three'])
    await store.append(keyOf(tenant), named(words), words);
  const others = [
    keyOf(otherTenant),
    keyOf(tenant, { actorId: 'bob' }),
    keyOf(tenant, { conversationId: 'd' }),
  ];
  for (const key of others) await store.append(key, named('two'), 'two');
}

async function findsTurns(trial: ConversationTrial): Promise<void> {
  const { store, other, tenant } = trial;
  const key = keyOf(tenant);
  await appendThree(trial);
  for (const text of AWKWARD_TEXTS)
    await store.append(key, [{ role: 'user', content: text, messageId: text }]);
  const two = await other.turn(key, 'two');
  assert.deepEqual([two?.runId, two?.messages, two?.cutBy], ['two', named('two'), undefined]);
  assert.deepEqual(await other.turn(key, 'message two'), two);
  for (const text of AWKWARD_TEXTS)
    assert.equal((await other.turn(key, text))?.messages[0]?.content, text);
  const strangers = [keyOf(tenant, { actorId: 'eve' }), keyOf(tenant, { conversationId: 'none' })];
  for (const stranger of strangers) assert.equal(await store.turn(stranger, 'two'), undefined);
  assert.equal(await store.turn(key, 'nothing'), undefined);
  await store.append(key, named('two'), 'two again');
  assert.equal((await store.turn(key, 'message two'))?.runId, 'two again', 'the latest');
}

async function cutsTurns(trial: ConversationTrial): Promise<void> {
  const { store, other, tenant, otherTenant } = trial;
  const key = keyOf(tenant);
  await appendThree(trial);
  const from = (await store.turn(key, 'two'))?.position ?? 0;
  await atOnce(trial, 20, (one, index) => one.cut(key, { from }, `run ${index}`));
  assert.deepEqual(await other.load(key), named('one'));
  assert.deepEqual(await other.read(key, { from: 0, limit: 100 }), named('one'));
  assert.equal(
    (await store.list({ tenant, actorId: 'alice' })).find(
      ({ conversationId }) => conversationId === 'c',
    )?.messages,
    4,
  );
  const by = (await other.turn(key, 'two'))?.cutBy ?? '';
  const cut = await other.cutBy(key, by);
  assert.deepEqual(
    [cut.map(({ runId }) => runId), cut.map(({ messages }) => messages)],
    [
      ['two', 'three'],
      [named('two'), named('three')],
    ],
  );
  for (let index = 0; index < 20; index += 1)
    if (`run ${index}` !== by)
      assert.deepEqual(await store.cutBy(key, `run ${index}`), [], 'one run has cut them');
  const others = [
    keyOf(otherTenant),
    keyOf(tenant, { actorId: 'bob' }),
    keyOf(tenant, { conversationId: 'd' }),
  ];
  for (const one of others) assert.deepEqual(await store.load(one), named('two'));
  await store.append(key, named('two'), 'anew');
  assert.deepEqual(await other.load(key), [...named('one'), ...named('two')]);
  assert.equal(
    (await other.turn(key, 'message two'))?.runId,
    'anew',
    'the one that is part of the conversation',
  );
  await store.cut(key, { from: 0 }, 'all');
  assert.deepEqual(
    [
      await other.load(key),
      (await other.list({ tenant, actorId: 'alice' })).map(({ conversationId }) => conversationId),
    ],
    [[], ['d']],
  );
  assert.equal(await other.delete(key), true);
  assert.equal(
    await store.turn(key, 'two'),
    undefined,
    'nothing of a deleted conversation is kept',
  );
}

async function keepsCutRunsOut(trial: ConversationTrial): Promise<void> {
  const { store, other, tenant } = trial;
  const key = keyOf(tenant);
  await appendThree(trial);
  await store.cut(key, { from: (await store.turn(key, 'three'))?.position ?? 0 }, 'anew');
  await other.append(key, named('three, once more'), 'three');
  assert.deepEqual(await store.load(key), [...named('one'), ...named('two')]);
  assert.deepEqual((await store.cutBy(key, 'anew'))[0]?.messages, named('three, once more'));
}

async function givesCutsOn(trial: ConversationTrial): Promise<void> {
  const { store, other, tenant } = trial;
  const key = keyOf(tenant);
  await appendThree(trial);
  await store.cut(key, { from: (await store.turn(key, 'two'))?.position ?? 0 }, 'failed');
  await other.cut(key, { cutBy: 'failed' }, 'anew');
  assert.deepEqual(
    [await store.cutBy(key, 'failed'), (await store.cutBy(key, 'anew')).map(({ runId }) => runId)],
    [[], ['two', 'three']],
  );
}

/** A lease that is longer than any check. */
const LONG_MS = 600_000;

async function givesOneTurn(trial: ConversationTrial): Promise<void> {
  const { store, other, tenant, otherTenant } = trial;
  const asked = await atOnce(trial, 20, (one, index) =>
    one.claim(keyOf(tenant), { owner: `${index}`, forMs: LONG_MS }),
  );
  const owner = `${asked.indexOf(true)}`;
  assert.equal(asked.filter(Boolean).length, 1);
  assert.equal(
    await other.claim(keyOf(tenant), { owner, forMs: LONG_MS }),
    true,
    'its owner has it again',
  );
  const others = [
    keyOf(otherTenant),
    keyOf(tenant, { actorId: 'bob' }),
    keyOf(tenant, { conversationId: 'C' }),
  ];
  for (const key of others)
    assert.equal(await store.claim(key, { owner: 'another', forMs: LONG_MS }), true);
}

function inputOf(id: string): LeftInput {
  return { id, texts: [`words of ${id}`, ...AWKWARD_TEXTS] };
}

async function keepsInputs(trial: ConversationTrial): Promise<void> {
  const { store, other, tenant, otherTenant } = trial;
  const key = keyOf(tenant);
  const leave = (id: string, forMs = LONG_MS): Promise<string | undefined> =>
    other.leave(key, inputOf(id), forMs);
  assert.deepEqual(await store.left(key, 'first'), []);
  assert.equal(await store.take(key, 'a', 'first'), undefined, 'nothing was left');
  await store.claim(key, { owner: 'first', forMs: LONG_MS });
  await store.claim(keyOf(otherTenant), { owner: 'first', forMs: LONG_MS });
  for (const id of ['b', 'a', 'b']) assert.equal(await leave(id), undefined);
  await leave('gone', 1);
  await wait(20);
  assert.deepEqual(await store.left(key, 'first'), [inputOf('b'), inputOf('a')]);
  assert.deepEqual(
    [await store.left(key, 'second'), await store.left(keyOf(otherTenant), 'first')],
    [[], []],
  );
  assert.equal(await store.take(key, 'gone', 'first'), undefined);
  const takers = await atOnce(trial, 20, (one, index) => one.take(key, 'b', `${index}`));
  assert.equal(new Set(takers).size, 1, 'one of many takes them');
  assert.equal(await leave('b'), takers[0]);
  assert.deepEqual(await store.left(key, 'first'), [inputOf('a')]);
  await leave('b', 1);
  await wait(20);
  assert.equal(
    await store.take(key, 'b', 'late'),
    takers[0],
    'who has taken them is told when their time is over',
  );
}

async function givesTurnsOn({ store, other, tenant }: ConversationTrial): Promise<void> {
  const claim = (owner: string, forMs: number, one = store): Promise<boolean> =>
    one.claim(keyOf(tenant), { owner, forMs });
  await claim('first', LONG_MS);
  assert.equal(await claim('second', 0, other), false, 'no other gives it back');
  assert.equal(await claim('second', LONG_MS, other), false);
  assert.equal(await claim('first', 0), true);
  assert.equal(await claim('second', 1, other), true);
  await wait(20);
  assert.equal(await claim('third', LONG_MS), true);
  assert.equal(await claim('second', LONG_MS, other), false, 'it has lost it');
}
