import type { PendingOf } from '../../contracts/pending.js';
import { canonicalDeclaration, sha256 } from '../../schema/canonical-json.js';
import { expiryOf, idFor, timesOf } from '../approvals/approval-question.js';
import { type Asker, Asking } from '../approvals/asking.js';
import { firstNoticeAt } from '../inbox/answering-roles.js';
import { isExpired } from '../inbox/pending.service.js';
import type { KeptCall } from './run-rehearsal.js';

/** Asks people about the list of changes of a rehearsal, once for the same list. */
export class AskedRehearsals extends Asking {
  /**
   * Returns what was asked, with its answer; without one where none came in time.
   *
   * @throws {CallPending} Where the run waits for it.
   */
  async decided(record: PendingOf<'rehearsal'>, asker: Asker): Promise<PendingOf<'rehearsal'>> {
    if (record.answer || isExpired(record)) return record;
    await this.answered(record, asker);
    return (await this.findOf('rehearsal', record.id)) ?? record;
  }

  /** Asks, or finds what was asked about the same list. */
  ask({ scope, request, calls }: EndedRehearsal): Promise<PendingOf<'rehearsal'>> {
    const { run, actorId, conversation } = scope;
    const list = calls.map(({ shown, arguments: args, terms }) => [
      shown.toolCallId,
      shown.declaredId,
      shown.instanceId ?? null,
      args,
      terms,
    ]);
    const what = {
      tenant: run.tenant,
      runId: run.runId,
      requesterId: actorId,
      argsHash: sha256(canonicalDeclaration(list)),
    };
    const idAfter = (before?: string): string =>
      idFor('reh', { ...what, ...(before !== undefined && { after: before }) });
    return this.once('rehearsal', idAfter, async (id) => {
      const admitted = calls.flatMap(({ terms }) => terms);
      const times = timesOf(expiryOf(admitted));
      const record: PendingOf<'rehearsal'> = {
        id,
        kind: 'rehearsal',
        request: {
          rehearsalId: id,
          runId: run.runId,
          step: request.step,
          calls: calls.map(({ shown }) => shown),
          expiresAt: times.expiresAt,
        },
        binding: {
          ...what,
          toolCallId: id,
          declaredId: 'rehearsal',
          instanceId: undefined,
          policyVersion: '',
        },
        ...(conversation !== undefined && { conversation }),
        admitted,
        rule: 'rehearsal',
        ...times,
      };
      const noticeAt = firstNoticeAt(record);
      await scope.plugins.note({
        kind: 'hold',
        held: { kind: 'rehearsal', id, expiresAt: times.expiresAt },
        at: { toolCallId: id, declaredId: 'rehearsal', step: request.step },
      });
      await this.store.add({ ...record, ...(noticeAt !== undefined && { noticeAt }) });
      return record;
    });
  }
}

/** A rehearsal that has come to its end. */
interface EndedRehearsal extends Asker {
  readonly calls: readonly KeptCall[];
}
