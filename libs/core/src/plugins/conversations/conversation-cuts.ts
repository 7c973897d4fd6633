import { isDeepStrictEqual } from 'node:util';
import type { Message } from '@toolloop/protocol';
import type { AuditTrail } from '../audit/audit-trail.js';
import type { ConversationCut, ConversationKey, KeptTurn } from '../../contracts/conversation.js';
import { type DirectiveRecord, versionOf } from '../../contracts/directive.js';
import type { BoundedStores } from '../../call/bounded-stores.js';
import type { ConversationTurns, TurnTaker } from './conversation-turns.js';
import { directivesIn, standingIn } from './standing-changes.js';
import type { SuspendedRuns } from '../../run/suspended-runs.js';

/**
 * Cuts conversations for the runs that take the place of what was said. The turns are cut at once,
 * so that of two equal requests one answers; what they left open is closed as soon as the run has
 * its turn, when nothing else is under way.
 */
export class ConversationCuts {
  constructor(
    private readonly stores: Pick<BoundedStores, 'conversations' | 'runs' | 'directives'>,
    private readonly turns: Pick<ConversationTurns, 'twinOf' | 'giveWay'>,
    private readonly suspended: Pick<SuspendedRuns, 'cancel' | 'withdrawPending'>,
    private readonly trail?: AuditTrail,
  ) {}

  /**
   * Cuts before the run has its turn, and has what is under way give way. Returns the ids of the
   * runs that do; or of the one that answers the same already.
   */
  async begin(cutting: CuttingRun): Promise<readonly string[] | string> {
    const { key, run, cut } = cutting;
    const twin = this.turns.twinOf(key, run);
    if (twin !== undefined) return twin;
    const place = await this.find(cutting);
    if (place.isReplaced && place.turn?.runId !== undefined && isSame(place.turn, cutting))
      return place.turn.runId;
    // What is under way is behind a place that is kept. A place that is not kept yet is named by
    // the run itself.
    const isKept = place.turn !== undefined || place.behind !== undefined;
    const isMeant = (names: readonly unknown[]): boolean =>
      isKept || names.some((name) => cut.at.some((id) => id === name));
    const gaveWay = this.turns.giveWay(key, run, ({ names }) => isMeant(names), REASON);
    await this.cut(cutting, place);
    await this.cancelElsewhere(cutting, isMeant);
    return gaveWay;
  }

  /**
   * Cuts what was added until the run had its turn, and closes what the cut turns left open.
   * Returns the id of the run that has answered the same meanwhile.
   *
   * @param gaveWay the runs that were cancelled for this one
   */
  async complete(cutting: CuttingRun, gaveWay: readonly string[]): Promise<string | undefined> {
    const { key, run } = cutting;
    for (const runId of gaveWay)
      await this.cut(cutting, { ...(await this.liveTurn(key, runId)), unanswered: [] });
    const place = await this.find(cutting);
    if (place.turn && place.turn.runId !== run.runId && isSame(place.turn, cutting))
      return place.turn.runId;
    await this.cut(cutting, place);
    for (const runId of place.unanswered)
      await this.stores.conversations.cut(key, { cutBy: runId }, run.runId);
    await this.close(cutting);
    return undefined;
  }

  /** Returns the steps of what a run has cut in which something was changed. */
  async standing({ key, run }: Pick<CuttingRun, 'key' | 'run'>): Promise<readonly Message[]> {
    const cut = await this.stores.conversations.cutBy(key, run.runId);
    const directives = await this.directivesOf(key, cut);
    const cancelled = directives.filter(
      ({ status, task }) => status === 'cancelled' && task === 'perform',
    );
    return standingIn(cut, new Set(cancelled.map(({ intent }) => intent.directiveId)));
  }

  private async find({ key, run, cut: { at, after = [] } }: CuttingRun): Promise<Place> {
    const unanswered: string[] = [];
    for (const id of at) {
      const { orphan, ...place } = await this.follow(key, id, run.runId);
      if (orphan !== undefined) unanswered.push(orphan);
      else if (place.turn) return { ...place, unanswered };
    }
    for (const id of after.toReversed()) {
      const { turn: behind } = await this.liveTurn(key, id);
      if (behind) return { behind, unanswered };
    }
    return { unanswered };
  }

  /**
   * Finds the turn that a name means by now: itself, or the answer that has taken its place.
   * `orphan` is a run that has cut it and kept no answer.
   */
  private async follow(
    key: ConversationKey,
    id: string,
    runId: string,
  ): Promise<Pick<Place, 'turn' | 'isReplaced'> & { readonly orphan?: string }> {
    let turn = await this.stores.conversations.turn(key, id);
    for (let followed = 0; turn?.cutBy !== undefined && followed < MOST_FOLLOWED; followed += 1) {
      const { cutBy } = turn;
      if (cutBy === runId) return {};
      turn = await this.stores.conversations.turn(key, cutBy);
      if (!turn) return { orphan: cutBy };
      if (turn.cutBy === undefined) return { turn, isReplaced: true };
    }
    return turn ? { turn } : {};
  }

  private async liveTurn(key: ConversationKey, id: string): Promise<Pick<Place, 'turn'>> {
    const turn = await this.stores.conversations.turn(key, id);
    return turn && turn.cutBy === undefined ? { turn } : {};
  }

  private async cut({ key, run }: CuttingRun, { turn, behind }: Place): Promise<void> {
    const from = turn ? turn.position : behind && behind.position + 1;
    if (from !== undefined && turn?.runId !== run.runId)
      await this.stores.conversations.cut(key, { from }, run.runId);
  }

  /** Ends durable runs of the conversation that other processes have, or have not begun. */
  private async cancelElsewhere(
    { key: { tenant, actorId, conversationId }, run, cut }: CuttingRun,
    isMeant: (names: readonly unknown[]) => boolean,
  ): Promise<void> {
    for (const status of ['queued', 'running'] as const) {
      const open = await this.stores.runs.list({ tenant, actorId, status, limit: PAGE });
      for (const { runId, request } of open) {
        const isOther =
          runId !== run.runId &&
          request?.['conversationId'] === conversationId &&
          !isDeepStrictEqual(request['cut'], cut);
        if (isOther && isMeant([runId, request['messageId']]))
          await this.stores.runs.cancel(runId, REASON);
      }
    }
  }

  /**
   * Ends the runs that wait, withdraws what was asked, and cancels the directives that have not
   * begun. The audit keeps all of it.
   */
  private async close({ key, run }: CuttingRun): Promise<void> {
    const { tenant, actorId } = key;
    const cut = await this.stores.conversations.cutBy(key, run.runId);
    for (const { runId } of cut) {
      if (runId === undefined) continue;
      await this.end(runId, key);
      await this.suspended.withdrawPending({ runId, tenant });
    }
    for (const directive of await this.directivesOf(key, cut))
      if (isOpen(directive)) await this.cancelDirective(directive, actorId);
  }

  private async end(runId: string, { tenant, actorId }: ConversationKey): Promise<void> {
    const record = await this.stores.runs.find(runId);
    if (record?.tenant !== tenant || record.actorId !== actorId || record.status === 'ended')
      return;
    await this.stores.runs.cancel(runId, REASON);
    if (!record.request) await this.suspended.cancel(record);
  }

  private async directivesOf(
    { tenant, actorId }: ConversationKey,
    cut: readonly KeptTurn[],
  ): Promise<readonly DirectiveRecord[]> {
    const found: DirectiveRecord[] = [];
    for (const directiveId of directivesIn(cut)) {
      const record = await this.stores.directives.find({ tenant, directiveId });
      if (record?.intent.authority.actorId === actorId) found.push(record);
    }
    return found;
  }

  /** Cancels a directive, unless it has begun meanwhile. */
  private async cancelDirective(record: DirectiveRecord, actorId: string): Promise<void> {
    const { intent, task, epoch, attempts } = record;
    const { tenant, directiveId, call, correlationId } = intent;
    const { runId, toolCallId, step, declaredId } = call;
    const subject = { actorId, runId, toolCallId, step, declaredId, correlationId };
    const details = { task, epoch, attempts, by: actorId, reason: REASON };
    await this.trail?.record({
      tenant,
      subject,
      event: { kind: 'directive-cancelled', directiveId, details },
    });
    await this.stores.directives.change(versionOf(record), {
      event: 'cancelled',
      status: 'cancelled',
    });
  }
}

const REASON = 'The user took the question back.';

/** Answers that have taken the place of each other. */
const MOST_FOLLOWED = 1_000;

const PAGE = 100;

/** A run that cuts its conversation. */
export interface CuttingRun {
  readonly key: ConversationKey;
  readonly run: TurnTaker;
  readonly cut: ConversationCut;
  /** The words of the user that the run answers. */
  readonly words: readonly Message[];
}

/** The place of a cut, as the conversation is now. */
interface Place {
  /** The first turn that goes. */
  readonly turn?: KeptTurn;
  /** True if the turn has taken the place of the one that was named. */
  readonly isReplaced?: boolean;
  /** The last turn that stays. */
  readonly behind?: KeptTurn;
  /** The runs that have cut the place and kept no answer. */
  readonly unanswered: readonly string[];
}

/** A directive of which no attempt was made that may have had its effect. */
function isOpen({ status, task, failure }: DirectiveRecord): boolean {
  return status === 'pending' && task === 'perform' && failure?.code !== 'unknown_outcome';
}

/** Tells whether a turn answers the same words. */
function isSame({ messages }: KeptTurn, { words }: CuttingRun): boolean {
  const said = messages.filter(({ role }) => role === 'user').map(({ content }) => content);
  return isDeepStrictEqual(
    said.slice(0, words.length),
    words.map(({ content }) => content),
  );
}
