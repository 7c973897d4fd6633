import { type SubmitEvent, type ReactNode, useState } from 'react';
import { type OpenRequest, type RequestAnswer, requestIdOf, useObserved } from '@toolloop/react';
import { type Amendment, ToolLoopHttpError, type WaitingRequest } from '@toolloop/client';
import type { ApprovalRequest, PendingReply, RehearsalRequest, ToolPreview } from '@toolloop/protocol';
import { useConsole, useWords } from '../shell/console-context.js';
import { isJsonObject } from '../office/json-lines.js';
import { Icon } from './icon.js';
import { ResultView, valueText } from './result-view.js';
import { SchemaForm } from './schema-form.js';

interface RequestViewProps {
  readonly open: OpenRequest | { readonly kind: 'rehearsal'; readonly request: RehearsalRequest };
  readonly answer?: RequestAnswer | undefined;
  readonly isLive?: boolean;
  /** Called once it was answered, by this person or another. */
  readonly onAnswered?: () => void;
}

/** What a call asks, and the means to answer it for those whose answer counts. */
export function RequestView({ open, answer, isLive = true, onAnswered }: RequestViewProps): ReactNode {
  const words = useWords();
  const { pending } = useConsole();
  const id = open.kind === 'rehearsal' ? open.request.rehearsalId : requestIdOf(open);
  const entry = useObserved(pending).requests.find((other) => other.id === id);
  const { problem, isBusy, send } = useAnswering(open, onAnswered);
  if (answer) return <p className="request-answer">{words.t(`answered.${answer.decision}`, { by: answer.by })}</p>;
  const mayAnswer = open.kind === 'approval' || open.kind === 'rehearsal' ? entry?.mayAnswer === true : true;
  return (
    <section className={`request asks-${open.kind}`} aria-label={words.t(`request.${open.kind}`)}>
      <Asked open={open} />
      {!isLive ? null : mayAnswer ? <AnswerForm {...{ open, isBusy, send }} /> : <Elsewhere {...{ open, entry, isBusy, send }} />}
      {problem !== undefined && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
      <p className="muted small">
        <Icon name="wait" size={14} /> {words.t('request.expires', { when: words.ago(open.request.expiresAt) })}
      </p>
    </section>
  );
}

interface Answering {
  readonly problem: string | undefined;
  readonly isBusy: boolean;
  readonly send: (reply: PendingReply, amend?: Amendment) => void;
}

/** Sends an answer. Of two people who answer at once the second is told who was first. */
function useAnswering({ kind, request }: RequestViewProps['open'], onAnswered?: () => void): Answering {
  const { client, pending, announce, words } = useConsole();
  const [problem, setProblem] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const send: Answering['send'] = (reply, amend) => {
    setBusy(true);
    const isDecision = 'approvalId' in reply && reply.decision !== 'withdraw' && amend !== undefined;
    const sent = isDecision ? client.decide(reply.approvalId, reply.decision, reply.reason, amend) : client.answer(request.runId, reply);
    sent
      .then(() => {
        announce(words.t('request.sent'));
        onAnswered?.();
      })
      .catch(async (error: unknown) => setProblem(await refusal(error)))
      .finally(() => {
        setBusy(false);
        void pending.refresh();
      });
  };
  const refusal = async (error: unknown): Promise<string> => {
    const isLost = error instanceof ToolLoopHttpError && error.code === 'already_answered';
    if (!isLost || kind !== 'approval') return error instanceof Error ? error.message : String(error);
    const { answer } = await client.approval(request.approvalId);
    return words.t('request.lost', { by: answer?.decidedBy ?? '?', when: words.ago(answer?.decidedAt ?? new Date().toISOString()) });
  };
  return { problem, isBusy, send };
}

function Asked({ open }: Pick<RequestViewProps, 'open'>): ReactNode {
  const { t } = useWords();
  switch (open.kind) {
    case 'approval':
      return <ApprovalAsked request={open.request} />;
    case 'question':
      return <p className="request-question">{open.request.question}</p>;
    case 'client':
      return <p className="request-question">{t('request.clientLead')}</p>;
    default:
      return (
        <ol className="rehearsed">
          {open.request.calls.map(({ toolCallId, preview, declaredId, args }) => (
            <li key={toolCallId}>
              <strong>{preview?.sentence ?? declaredId}</strong>
              {preview?.changes ? <Diff changes={preview.changes} /> : <ResultView value={args} />}
            </li>
          ))}
        </ol>
      );
  }
}

function ApprovalAsked({ request: { preview, reason, presentation, args } }: { readonly request: ApprovalRequest }): ReactNode {
  return (
    <>
      <p className="request-question">{presentation?.confirm ?? preview?.sentence}</p>
      {presentation?.confirm !== undefined && preview && <p className="request-sentence">{preview.sentence}</p>}
      {preview?.changes && <Diff changes={preview.changes} />}
      {!preview?.changes && Object.keys(args).length > 0 && <ResultView value={args} />}
      <p className="request-reason">
        <Icon name="audit" size={15} /> {reason}
      </p>
    </>
  );
}

/** The values before and after. */
export function Diff({ changes }: { readonly changes: NonNullable<ToolPreview['changes']> }): ReactNode {
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
            <th scope="row">{field}</th>
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
        <SchemaForm schema={schema} submit={t('request.answer')} isBusy={isBusy} onSubmit={(answer) => send({ questionId, answer })}>
          <button type="button" className="button" disabled={isBusy} onClick={() => send({ questionId, decision: 'withdraw' })}>
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
          <button type="button" className="button" disabled={isBusy} onClick={() => send({ toolCallId, pendingId, decision: 'withdraw' })}>
            {t('request.withdraw')}
          </button>
        </SchemaForm>
      );
    }
    default:
      return <DecisionForm {...{ open, isBusy, send }} />;
  }
}

type DecisionProps = Pick<Answering, 'isBusy' | 'send'> & {
  readonly open: Extract<RequestViewProps['open'], { readonly kind: 'approval' | 'rehearsal' }>;
};

/** A yes, or a no with its reason, which the model reads. */
function DecisionForm({ open, isBusy, send }: DecisionProps): ReactNode {
  const { t } = useWords();
  const [problem, setProblem] = useState<string>();
  const { mayRemember, mayEdit } = open.kind === 'approval' ? open.request : NOT_AMENDED;
  const decide = (decision: 'approve' | 'deny', form: HTMLFormElement): void => {
    const typed = new FormData(form);
    const reason = typed.get('reason');
    const said = { decision, ...(typeof reason === 'string' && reason.trim() !== '' && { reason }) };
    if (open.kind === 'rehearsal') return send({ rehearsalId: open.request.rehearsalId, ...said });
    const amend = decision === 'approve' ? amendmentIn(typed, open.request) : {};
    if (amend === undefined) return setProblem(t('request.notJson'));
    setProblem(undefined);
    send({ approvalId: open.request.approvalId, ...said }, Object.keys(amend).length > 0 ? amend : undefined);
  };
  const submit = (event: SubmitEvent<HTMLFormElement>): void => {
    event.preventDefault();
    decide(event.nativeEvent.submitter?.getAttribute('value') === 'deny' ? 'deny' : 'approve', event.currentTarget);
  };
  return (
    <form className="decision" onSubmit={submit}>
      <label className="field">
        <span>{t('request.reason')}</span>
        <input name="reason" maxLength={1000} autoComplete="off" />
      </label>
      {mayEdit && open.kind === 'approval' && (
        <label className="field">
          <span>{t('request.edit')}</span>
          <textarea name="args" className="code" rows={4} spellCheck={false} defaultValue={JSON.stringify(open.request.args, null, 2)} />
        </label>
      )}
      {problem !== undefined && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
      {mayRemember && (
        <label className="check">
          <input type="checkbox" name="remember" /> {t('request.remember')}
        </label>
      )}
      <div className="actions">
        <button type="submit" value="approve" className="button primary" disabled={isBusy} data-key="a">
          <Icon name="check" size={16} /> {t('request.approve')}
        </button>
        <button type="submit" value="deny" className="button danger" disabled={isBusy} data-key="d">
          <Icon name="cross" size={16} /> {t('request.deny')}
        </button>
      </div>
    </form>
  );
}

const NOT_AMENDED = { mayEdit: false, mayRemember: false };

/** The changes that the person has made to the call; undefined where they are no object. Arguments that stay as they were are none. */
function amendmentIn(typed: FormData, { args }: ApprovalRequest): Amendment | undefined {
  const text = typed.get('args');
  const remember = typed.get('remember') !== null && { remember: true };
  if (typeof text !== 'string') return { ...remember };
  try {
    const value: unknown = JSON.parse(text);
    if (!isJsonObject(value)) return undefined;
    return { ...remember, ...(JSON.stringify(value) !== JSON.stringify(args) && { args: value }) };
  } catch {
    return undefined;
  }
}

/** For those who only wait: whose turn it is, and how to take the call back. */
function Elsewhere({ open, entry, isBusy, send }: FormProps & { readonly entry: WaitingRequest | undefined }): ReactNode {
  const { words, session } = useConsole();
  const isOwn = entry?.requestedBy === undefined || entry.requestedBy === session.actor.id;
  const withdraw = (): void => {
    if (open.kind === 'approval') send({ approvalId: open.request.approvalId, decision: 'withdraw' });
    if (open.kind === 'rehearsal') send({ rehearsalId: open.request.rehearsalId, decision: 'withdraw' });
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
