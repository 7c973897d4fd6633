import { type ReactNode, useState } from 'react';
import { type OpenRequest, type RequestAnswer, requestIdOf, useObserved } from '@toolloop/react';
import {
  type Amendment,
  type DecisionReach,
  ToolLoopHttpError,
  type WaitingRequest,
} from '@toolloop/client';
import {
  type ApprovalRequest,
  type PendingReply,
  type RehearsalRequest,
  type ToolPreview,
  visible,
} from '@toolloop/protocol';
import { useConsole, useWords } from '../shell/console-context.js';
import { Icon } from './icon.js';
import { DecisionForm } from './decision-form.js';
import { ResultView } from './result-view.js';
import { SchemaForm } from './schema-form.js';
import { Problem } from './states.js';
import { valueText } from './value-text.js';

export interface RequestViewProps {
  readonly open: OpenRequest | { readonly kind: 'rehearsal'; readonly request: RehearsalRequest };
  readonly answer?: RequestAnswer | undefined;
  readonly isLive?: boolean;
  /**
   * Called once this person has answered, with the ids of all requests that the answer is about.
   */
  readonly onAnswered?: (ids: readonly string[]) => void;
}

/** What a call asks, and the means to answer it for those whose answer counts. */
export function RequestView({
  open,
  answer,
  isLive = true,
  onAnswered,
}: RequestViewProps): ReactNode {
  const words = useWords();
  const { pending } = useConsole();
  const id = open.kind === 'rehearsal' ? open.request.rehearsalId : requestIdOf(open);
  const entry = useObserved(pending).requests.find((other) => other.id === id);
  const { problem, isBusy, send } = useAnswering(open, id, onAnswered);
  if (answer)
    return (
      <p className="request-answer">{words.t(`answered.${answer.decision}`, { by: answer.by })}</p>
    );
  const mayAnswer =
    open.kind === 'approval' || open.kind === 'rehearsal' ? entry?.mayAnswer === true : true;
  return (
    <section className={`request asks-${open.kind}`} aria-label={words.t(`request.${open.kind}`)}>
      <Asked open={open} />
      {!isLive ? null : mayAnswer ? (
        <AnswerForm {...{ open, isBusy, send }} />
      ) : (
        <Elsewhere {...{ open, entry, isBusy, send }} />
      )}
      <Problem text={problem} />
      {entry?.roles !== undefined && entry.roles.length > 0 && (
        <p className="muted small">
          <Icon name="lock" size={14} />{' '}
          <bdi>{words.t('request.needs', { roles: words.anyOf(entry.roles) })}</bdi>
        </p>
      )}
      <p className="muted small">
        <Icon name="wait" size={14} />{' '}
        {words.t('request.expires', { when: words.ago(open.request.expiresAt) })}
      </p>
    </section>
  );
}

export interface Answering {
  readonly problem: string | undefined;
  readonly isBusy: boolean;
  readonly send: (reply: PendingReply, amend?: Amendment, reach?: DecisionReach) => void;
}

/** Sends an answer. Of two people who answer at once the second is told who was first. */
function useAnswering(
  { kind, request }: RequestViewProps['open'],
  id: string,
  onAnswered: RequestViewProps['onAnswered'],
): Answering {
  const { client, pending, announce, words, thread } = useConsole();
  const [problem, setProblem] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const send: Answering['send'] = (reply, amend, reach) => {
    setBusy(true);
    const isDecision =
      'approvalId' in reply &&
      reply.decision !== 'withdraw' &&
      (amend !== undefined || reach !== undefined);
    const sent = isDecision
      ? client.decide(reply.approvalId, reply.decision, reply.reason, amend, reach)
      : client.answer(request.runId, reply);
    sent
      .then(() => {
        announce(words.t('request.sent'));
        thread.readOn(request.runId);
        onAnswered?.([id, ...(reach?.also ?? [])]);
      })
      .catch(async (error: unknown) => setProblem(await refusal(error)))
      .finally(() => {
        setBusy(false);
        void pending.refresh();
      });
  };
  const refusal = async (error: unknown): Promise<string> => {
    const isLost = error instanceof ToolLoopHttpError && error.code === 'already_answered';
    if (!isLost || kind !== 'approval')
      return error instanceof Error ? error.message : String(error);
    const { answer } = await client.approval(request.approvalId);
    return words.t('request.lost', {
      by: answer?.decidedBy ?? '?',
      when: words.ago(answer?.decidedAt ?? new Date().toISOString()),
    });
  };
  return { problem, isBusy, send };
}

function Asked({ open }: Pick<RequestViewProps, 'open'>): ReactNode {
  const { t } = useWords();
  switch (open.kind) {
    case 'approval':
      return <ApprovalAsked request={open.request} />;
    case 'question':
      return (
        <p className="request-question" dir="auto">
          {visible(open.request.question)}
        </p>
      );
    case 'client':
      return <p className="request-question">{t('request.clientLead')}</p>;
    default:
      return (
        <ol className="rehearsed">
          {open.request.calls.map(({ toolCallId, preview, declaredId, args }) => (
            <li key={toolCallId}>
              <strong>{visible(preview?.sentence ?? declaredId)}</strong>
              {preview?.changes ? <Diff changes={preview.changes} /> : <ResultView value={args} />}
            </li>
          ))}
        </ol>
      );
  }
}

function ApprovalAsked({ request }: { readonly request: ApprovalRequest }): ReactNode {
  const { preview, reason, presentation, args, isTainted, changed } = request;
  const { t } = useWords();
  return (
    <>
      <p className="request-question" dir="auto">
        {visible(presentation?.confirm ?? preview?.sentence ?? '')}
      </p>
      {presentation?.confirm !== undefined && preview && (
        <p className="request-sentence" dir="auto">
          {visible(preview.sentence)}
        </p>
      )}
      {preview?.changes && <Diff changes={preview.changes} />}
      {!preview?.changes && Object.keys(args).length > 0 && <ResultView value={args} />}
      {changed && (
        <>
          <p className="warning-line">
            <Icon name="alert" size={15} /> {t('request.changed')}
          </p>
          <Diff changes={changed} />
        </>
      )}
      {isTainted && (
        <p className="warning-line">
          <Icon name="alert" size={15} /> {t('request.tainted')}
        </p>
      )}
      <p className="request-reason">
        <Icon name="audit" size={15} /> <bdi>{visible(reason)}</bdi>
      </p>
    </>
  );
}

/** The values before and after. */
export function Diff({
  changes,
}: {
  readonly changes: NonNullable<ToolPreview['changes']>;
}): ReactNode {
  const words = useWords();
  return (
    <table className="diff">
      <thead className="unseen">
        <tr>
          <th scope="col">{words.t('diff.field')}</th>
          <th scope="col">{words.t('diff.before')}</th>
          <th scope="col">{words.t('diff.after')}</th>
        </tr>
      </thead>
      <tbody>
        {changes.map(({ field, before, after }) => (
          <tr key={field}>
            <th scope="row">{visible(field)}</th>
            <td>
              <del>{valueText(before, words)}</del>
            </td>
            <td>
              <ins>{valueText(after, words)}</ins>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

interface FormProps extends Pick<Answering, 'isBusy' | 'send'> {
  readonly open: RequestViewProps['open'];
}

function AnswerForm({ open, isBusy, send }: FormProps): ReactNode {
  const { t } = useWords();
  switch (open.kind) {
    case 'question': {
      const { questionId, schema } = open.request;
      return (
        <SchemaForm
          schema={schema}
          submit={t('request.answer')}
          isBusy={isBusy}
          onSubmit={(answer) => send({ questionId, answer })}
        >
          <button
            type="button"
            className="button"
            disabled={isBusy}
            onClick={() => send({ questionId, decision: 'withdraw' })}
          >
            {t('request.withdraw')}
          </button>
        </SchemaForm>
      );
    }
    case 'client': {
      const { toolCallId, pendingId, resultSchema = {} } = open.request;
      return (
        <SchemaForm
          schema={resultSchema}
          submit={t('request.giveResult')}
          isBusy={isBusy}
          onSubmit={(result) => send({ toolCallId, pendingId, result })}
        >
          <button
            type="button"
            className="button"
            disabled={isBusy}
            onClick={() => send({ toolCallId, pendingId, decision: 'withdraw' })}
          >
            {t('request.withdraw')}
          </button>
        </SchemaForm>
      );
    }
    default:
      return <DecisionForm {...{ open, isBusy, send }} />;
  }
}

/** For those who only wait: whose turn it is, and how to take the call back. */
function Elsewhere({
  open,
  entry,
  isBusy,
  send,
}: FormProps & { readonly entry: WaitingRequest | undefined }): ReactNode {
  const { words, session } = useConsole();
  const isOwn = entry?.requestedBy === undefined || entry.requestedBy === session.actor.id;
  const withdraw = (): void => {
    if (open.kind === 'approval')
      send({ approvalId: open.request.approvalId, decision: 'withdraw' });
    if (open.kind === 'rehearsal')
      send({ rehearsalId: open.request.rehearsalId, decision: 'withdraw' });
  };
  return (
    <div className="elsewhere">
      <p>{words.t('request.elsewhere')}</p>
      {isOwn && (
        <button type="button" className="button" disabled={isBusy} onClick={withdraw}>
          {words.t('request.withdraw')}
        </button>
      )}
    </div>
  );
}
