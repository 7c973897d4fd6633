import { type ReactNode, useId, useState } from 'react';
import type { CallPart, RunView } from '@toolloop/react';
import { type Usage, visible } from '@toolloop/protocol';
import { useWords } from '../shell/console-context.js';
import { hrefOf } from '../shell/route.js';
import type { Words } from '../words/words.js';
import { Icon, type IconName } from './icon.js';
import { nameOf, summaryOf } from './names.js';
import { RequestView } from './request-view.js';
import { ResultView } from './result-view.js';
import { isObject } from './value-text.js';
import { VerdictControl } from './verdict.js';

interface CallCardProps {
  readonly call: CallPart;
  readonly run: RunView;
  /** Answers are given in the chat and the inbox, and not while one looks back. */
  readonly isLive?: boolean;
}

type Mood = 'busy' | 'done' | 'failed' | 'waiting';

/** A call: what it does in a sentence, what came of it, and on request all the rest. */
export function CallCard({ call, run, isLive = true }: CallCardProps): ReactNode {
  const words = useWords();
  const [isOpen, setOpen] = useState(false);
  const details = useId();
  const mood = moodOf(call, run);
  const { record } = call;
  return (
    <article
      className={`call ${mood} ${call.presentation?.tone ?? 'neutral'}`}
      id={`call-${call.since}`}
    >
      <header>
        <span className="call-state">
          <Icon name={ICONS[mood]} size={16} />
        </span>
        <div className="call-words">
          <h3>{titleOf(call, mood)}</h3>
          <p className="call-line">{lineOf(call)}</p>
        </div>
        <button
          type="button"
          className="ghost"
          aria-expanded={isOpen}
          aria-controls={details}
          onClick={() => setOpen(!isOpen)}
        >
          {words.t(isOpen ? 'call.less' : 'call.more')}
        </button>
      </header>
      <Chips call={call} run={run} />
      {record?.status === 'succeeded' && record.result !== undefined && record.result !== null && (
        <div className="call-result">
          <ResultView value={record.result} form={call.presentation?.result} />
        </div>
      )}
      {call.progress !== undefined && !record && (
        <progress className="call-progress" aria-label={words.t('call.running')} />
      )}
      {record?.error && <p className="problem">{record.error.safeMessage}</p>}
      {call.request && !record && (
        <RequestView open={call.request} answer={call.answer} isLive={isLive} />
      )}
      {record && <Answered call={call} />}
      {isOpen && <Details id={details} call={call} run={run} />}
      {call.brought.length > 0 && <Brought call={call} />}
    </article>
  );
}

const ICONS: Readonly<Record<Mood, IconName>> = {
  busy: 'more',
  done: 'check',
  failed: 'cross',
  waiting: 'wait',
};

function moodOf({ record, request, answer }: CallPart, { status }: RunView): Mood {
  if (record)
    return record.status === 'succeeded'
      ? 'done'
      : record.status === 'waiting'
        ? 'waiting'
        : 'failed';
  if (request && !answer) return 'waiting';
  return status === 'ended' ? 'failed' : 'busy';
}

function titleOf({ tool, presentation }: CallPart, mood: Mood): string {
  const said = {
    busy: presentation?.running,
    done: presentation?.done,
    failed: undefined,
    waiting: undefined,
  }[mood];
  return said ?? nameOf(tool, presentation);
}

function lineOf({ request, args, typed, record, tool }: CallPart): string {
  const preview = request?.kind === 'approval' ? request.request.preview?.sentence : undefined;
  const entity = record?.entity;
  const whose = entity ? `${entity.provider} ${entity.instanceId}` : '';
  const given = args ? summaryOf(args) : (typed ?? '');
  return visible(preview ?? ([whose, given].filter(Boolean).join(' · ') || tool));
}

function Chips({ call, run }: CallCardProps): ReactNode {
  const { effect, record, decision, directive } = call;
  const words = useWords();
  const { t } = words;
  const isTainted = isAfterOthers(call, run);
  const usage = record?.subRun?.usage ?? usageOf(call, run);
  return (
    <ul className="chips" aria-label={t('call.facts')}>
      {effect && <li className={`chip effect-${effect}`}>{t(`effect.${effect}`)}</li>}
      {record && <li className="chip">{words.duration(record.durationMs)}</li>}
      {record?.rehearsal && <li className="chip caution">{t(`call.${record.rehearsal}`)}</li>}
      {decision && decision.kind !== 'allow' && (
        <li className="chip caution">{t(`decision.${decision.kind}`)}</li>
      )}
      {directive && (
        <li className="chip caution">{t('call.directive', { status: directive.status })}</li>
      )}
      {record?.truncated && <li className="chip">{t('call.truncated')}</li>}
      <Attempts call={call} />
      {usage && <li className="chip">{usageText(usage, words)}</li>}
      {call.isOfOthers && <li className="chip">{t('call.ofOthers')}</li>}
      {isTainted && <li className="chip danger">{t('call.tainted')}</li>}
    </ul>
  );
}

/** The attempts of a call, and whether it was made before this answer. */
function Attempts({ call: { record, stands } }: Pick<CallCardProps, 'call'>): ReactNode {
  const { t } = useWords();
  const { attempt = 1, madeBefore } = record ?? {};
  return (
    <>
      {attempt > 1 && <li className="chip">{t('call.attempt', { n: attempt })}</li>}
      {(stands === true || madeBefore !== undefined) && (
        <li className="chip caution">{t('call.stands')}</li>
      )}
    </>
  );
}

/**
 * Tells whether the run had read what others may have written: as the server says of what waits,
 * and otherwise by the results of earlier steps.
 */
function isAfterOthers({ step, effect, request }: CallPart, { parts }: RunView): boolean {
  if (request?.kind === 'approval' || request?.kind === 'question')
    return request.request.isTainted === true;
  if (effect === undefined || effect === 'read_only') return false;
  return parts.some((part) => part.kind === 'call' && part.isOfOthers && part.step < step);
}

/** The use of the answer that asked for the call, on the first call that it asked for. */
function usageOf({ step, since }: CallPart, { parts, usageByStep }: RunView): Usage | undefined {
  const first = parts.find((part) => part.kind === 'call' && part.step === step);
  return first?.since === since ? usageByStep[step] : undefined;
}

/** Tokens, and the cost where it is known. */
export function usageText({ inputTokens, outputTokens, costUsd }: Usage, words: Words): string {
  const tokens = words.t('run.tokens', { n: inputTokens + outputTokens });
  return costUsd === undefined || costUsd === 0
    ? tokens
    : `${tokens} · ${words.money(costUsd, 'USD')}`;
}

function answerText({ answer }: CallPart, { t }: Words): string {
  if (!answer) return '';
  const said = t(`answered.${answer.decision}`, { by: answer.by });
  return answer.reason === undefined ? said : `${said} “${answer.reason}”`;
}

/** Who answered what the call asked, and whether that was right. */
function Answered({ call }: { readonly call: CallPart }): ReactNode {
  const words = useWords();
  if (!call.answer) return null;
  return (
    <>
      <p className="muted small">{answerText(call, words)}</p>
      {call.request?.kind === 'approval' && (
        <VerdictControl approvalId={call.request.request.approvalId} />
      )}
    </>
  );
}

interface DetailsProps {
  readonly id: string;
  readonly call: CallPart;
  readonly run: RunView;
}

function Details({ id, call, run }: DetailsProps): ReactNode {
  const words = useWords();
  const { t } = words;
  const { record, decision } = call;
  const declared = record?.declaredId ?? call.tool;
  return (
    <div id={id} className="call-details">
      <h4>{t('call.arguments')}</h4>
      {isObject(call.args) && Object.keys(call.args).length > 0 ? (
        <ResultView value={call.args} />
      ) : (
        <p className="muted">{t('call.none')}</p>
      )}
      <dl className="facts">
        <div>
          <dt>{t('call.tool')}</dt>
          <dd>
            <a
              href={hrefOf(
                'why',
                declared,
                ...(run.runId === undefined ? [] : [run.runId, call.toolCallId]),
              )}
            >
              {visible(call.tool)}
            </a>
          </dd>
        </div>
        {decision && (
          <div>
            <dt>{t('call.rule')}</dt>
            <dd>
              {decision.rule} · {decision.policyVersion}
            </dd>
          </div>
        )}
        {record?.startedAt !== undefined && (
          <div>
            <dt>{t('call.started')}</dt>
            <dd>{words.clock(String(record.startedAt))}</dd>
          </div>
        )}
        {record?.resultBytes !== undefined && (
          <div>
            <dt>{t('call.bytes')}</dt>
            <dd>{words.number(record.resultBytes)}</dd>
          </div>
        )}
      </dl>
    </div>
  );
}

const MOST_CHIPS = 6;

/** The tools that the result brought: they slide in under their card. */
function Brought({ call: { brought } }: { readonly call: CallPart }): ReactNode {
  const { t } = useWords();
  return (
    <div className="brought">
      <span className="muted small">{t('call.brought', { n: brought.length })}</span>
      <ul>
        {brought.slice(0, MOST_CHIPS).map((id) => (
          <li key={id} className="tool-chip" title={id}>
            {nameOf(id)}
          </li>
        ))}
        {brought.length > MOST_CHIPS && (
          <li className="muted small">{t('call.others', { n: brought.length - MOST_CHIPS })}</li>
        )}
      </ul>
    </div>
  );
}
