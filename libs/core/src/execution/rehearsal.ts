import type { ApprovalTerms, RehearsedCall } from '@toolloop/protocol';
import { toJsonObject } from '../schema/canonical-json.js';
import type { KeptCall, RunRehearsal } from '../pending/run-rehearsal.js';
import { notBegun } from './call-failure.js';
import { advance, type AuthorisedCall, type ToolOutcome } from './call.js';
import { answeredFor, shownArguments } from './describe.js';
import type { CallPerformer } from './perform.js';
import type { CallPreview } from './preview.js';

/** The stage of a rehearsal in the place of an effect: a call is made and rolled back, or shown and not made. */
export class CallRehearsal {
  constructor(
    private readonly performer: CallPerformer,
    private readonly preview: CallPreview,
  ) {}

  /** @throws As {@link CallPerformer.perform} does. */
  async rehearse(call: AuthorisedCall, rehearsal: RunRehearsal): Promise<ToolOutcome> {
    const { signal } = call.scope;
    if (signal.aborted) throw notBegun(signal);
    if (!isHarmless(call)) return this.previewed(call, rehearsal);
    return this.performer.perform(advance(call, { rehearsal: 'rehearsed' }));
  }

  /** Answers a call that is not made. Only what the tool's own preview tells of it can be a stranger's words. */
  private async previewed(call: AuthorisedCall, rehearsal: RunRehearsal): Promise<ToolOutcome> {
    const preview = await this.preview.of(call);
    advance(call, { rehearsal: 'previewed', ...(!preview && { labels: { returns: 'trusted', reads: 'public' } }) });
    const isRead = call.tool.spec.effect === 'read_only';
    if (!isRead) rehearsal.add(keptCall(call, { as: 'previewed', ...(preview && { preview }) }));
    return answeredFor(call, {}, toJsonObject({ status: 'previewed', note: isRead ? READ_LEFT_OUT : CHANGE_LEFT_OUT, preview }));
  }
}

const CHANGE_LEFT_OUT =
  'This is a rehearsal: the call was not made, so there is no result. It is made once the rehearsal is approved. Continue as if it had succeeded.';
const READ_LEFT_OUT = 'This is a rehearsal: the call was not made, and it will not be. Continue without its result.';

/** Tells whether a call may be made in a rehearsal: it reads, and no one outside or at a client hears of it. */
function isHarmless({ tool, decision }: AuthorisedCall): boolean {
  const { spec, origin, client, subRun } = tool;
  const isOwn = origin.trusted && !client && !subRun && !spec.labels.egress;
  return isOwn && spec.effect === 'read_only' && decision?.kind === 'allow';
}

function keptCall({ tool, input, request, decision }: AuthorisedCall, told: Pick<RehearsedCall, 'as' | 'preview' | 'result'>): KeptCall {
  const { spec, entity } = tool;
  const isAsked = decision?.kind === 'require_approval';
  const { reason = '', approval = [] } = decision ?? {};
  return {
    shown: {
      toolCallId: request.call.toolCallId,
      step: request.step,
      tool: spec.id,
      declaredId: spec.declaredId,
      ...(entity && { instanceId: entity.instanceId }),
      effect: spec.effect,
      args: shownArguments(input.args, tool.input.hidden),
      ...(isAsked && { reason }),
      ...told,
    },
    arguments: input.canonical,
    index: request.index,
    terms: isAsked ? (approval.length > 0 ? approval : ANY_TERMS) : [],
  };
}

/** An approval without terms is that of the actor of the run. */
const ANY_TERMS: readonly ApprovalTerms[] = [{}];
