import { type ReactNode, type SubmitEvent, useState } from 'react';
import { useObserved } from '@toolloop/react';
import type { Amendment, DecisionReach } from '@toolloop/client';
import type { ApprovalRequest, Endorsable } from '@toolloop/protocol';
import { isJsonObject } from '../office/json-lines.js';
import { useConsole, useWords } from '../shell/console-context.js';
import { Icon } from './icon.js';
import { detailOf, groupOf, sentenceOf } from './request-words.js';
import type { Answering, RequestViewProps } from './request-view.js';
import { Problem } from './states.js';

type DecisionProps = Pick<Answering, 'isBusy' | 'send'> & {
  readonly open: Extract<RequestViewProps['open'], { readonly kind: 'approval' | 'rehearsal' }>;
};

/** A yes, or a no with its reason, which the model reads. */
export function DecisionForm({ open, isBusy, send }: DecisionProps): ReactNode {
  const { t } = useWords();
  const { problem, decide } = useDecision({ open, send });
  const request = open.kind === 'approval' ? open.request : undefined;
  const submit = (event: SubmitEvent<HTMLFormElement>): void => {
    event.preventDefault();
    decide(
      event.nativeEvent.submitter?.getAttribute('value') === 'deny' ? 'deny' : 'approve',
      new FormData(event.currentTarget),
    );
  };
  return (
    <form className="decision" onSubmit={submit}>
      <label className="field">
        <span>{t('request.reason')}</span>
        <input name="reason" maxLength={1000} autoComplete="off" />
      </label>
      {request?.mayEdit && <ArgumentsField args={request.args} />}
      <Problem text={problem} />
      {request?.mayRemember && (
        <label className="check">
          <input type="checkbox" name="remember" /> {t('request.remember')}
        </label>
      )}
      {request?.mayEndorse && <Trust offered={request.mayEndorse} />}
      {request && <Together approvalId={request.approvalId} />}
      <DecisionButtons isBusy={isBusy} />
    </form>
  );
}

/** The decision that a person is about to send. */
interface OwnDecision {
  /** The reason for which it could not be sent. */
  readonly problem: string | undefined;
  readonly decide: (decision: 'approve' | 'deny', typed: FormData) => void;
}

function useDecision({ open, send }: Pick<DecisionProps, 'open' | 'send'>): OwnDecision {
  const { t } = useWords();
  const [problem, setProblem] = useState<string>();
  const decide: OwnDecision['decide'] = (decision, typed) => {
    const reason = typed.get('reason');
    const said = {
      decision,
      ...(typeof reason === 'string' && reason.trim() !== '' && { reason }),
    };
    if (open.kind === 'rehearsal') return send({ rehearsalId: open.request.rehearsalId, ...said });
    const amend = decision === 'approve' ? amendmentIn(typed, open.request) : {};
    if (amend === undefined) return setProblem(t('request.notJson'));
    setProblem(undefined);
    const reach = reachIn(typed, decision, said.reason);
    send({ approvalId: open.request.approvalId, ...said }, orNone(amend), orNone(reach));
  };
  return { problem, decide };
}

/** The arguments of the call, for those who may change them. */
function ArgumentsField({ args }: Pick<ApprovalRequest, 'args'>): ReactNode {
  const { t } = useWords();
  return (
    <label className="field">
      <span>{t('request.edit')}</span>
      <textarea
        name="args"
        className="code"
        rows={4}
        spellCheck={false}
        defaultValue={JSON.stringify(args, null, 2)}
      />
    </label>
  );
}

function DecisionButtons({ isBusy }: Pick<DecisionProps, 'isBusy'>): ReactNode {
  const { t } = useWords();
  return (
    <div className="actions">
      <button
        type="submit"
        value="approve"
        className="button primary"
        disabled={isBusy}
        data-key="a"
      >
        <Icon name="check" size={16} /> {t('request.approve')}
      </button>
      <button type="submit" value="deny" className="button danger" disabled={isBusy} data-key="d">
        <Icon name="cross" size={16} /> {t('request.deny')}
      </button>
    </div>
  );
}

/**
 * The values and sources that the person may trust with a yes: for the rest of the run, or as an
 * operator for good.
 */
function Trust({
  offered: { arguments: names = [], sources = [], always = [] },
}: {
  readonly offered: Endorsable;
}): ReactNode {
  const { words, session } = useConsole();
  const { t } = words;
  const forGood = session.may.includes('policy') ? always : [];
  return (
    <fieldset className="trust">
      <legend>{t('request.trust')}</legend>
      {names.map((name) => (
        <label key={name} className="check">
          <input type="checkbox" name="trustArgument" value={name} />{' '}
          {t('request.trustArgument', { name })}
        </label>
      ))}
      {sources.map((name) => (
        <label key={name} className="check">
          <input type="checkbox" name="trustSource" value={name} />{' '}
          {t('request.trustSource', { name })}
        </label>
      ))}
      {forGood.map((name) => (
        <label key={name} className="check">
          <input type="radio" name="always" value={name} /> {t('request.always', { name })}
        </label>
      ))}
    </fieldset>
  );
}

/** The other calls of the same kind and step, of which the same decision can be taken. */
function Together({ approvalId }: { readonly approvalId: string }): ReactNode {
  const { pending, words } = useConsole();
  const { requests } = useObserved(pending);
  const entry = requests.find(({ id }) => id === approvalId);
  const group = entry ? groupOf(entry, requests) : [];
  const others = group.filter(({ id }) => id !== approvalId);
  if (others.length === 0) return null;
  return (
    <div className="trust">
      <label className="check">
        <input type="checkbox" name="also" value={others.map(({ id }) => id).join(' ')} />{' '}
        {words.t('request.together', { n: group.length })}
      </label>
      <ul>
        {others.map((other) => (
          <li key={other.id}>
            {[sentenceOf(other, words), detailOf(other)].filter(Boolean).join(' · ')}
          </li>
        ))}
      </ul>
    </div>
  );
}

function orNone<Given extends object>(given: Given): Given | undefined {
  return Object.keys(given).length > 0 ? given : undefined;
}

function textsIn(typed: FormData, name: string): readonly string[] {
  return typed.getAll(name).flatMap((value) => (typeof value === 'string' ? [value] : []));
}

/** The part of the decision that is about more than the call. */
function reachIn(
  typed: FormData,
  decision: 'approve' | 'deny',
  reason: string | undefined,
): DecisionReach {
  const also = textsIn(typed, 'also').flatMap((ids) => ids.split(' '));
  const [argument] = decision === 'approve' ? textsIn(typed, 'always') : [];
  return {
    ...(also.length > 0 && { also }),
    ...(argument !== undefined && { always: { argument, reason: reason ?? '' } }),
  };
}

/**
 * The changes that the person has made to the call; undefined where they are no object. Arguments
 * that stay as they were are none.
 */
function amendmentIn(typed: FormData, { args }: ApprovalRequest): Amendment | undefined {
  const [trusted, sources] = [textsIn(typed, 'trustArgument'), textsIn(typed, 'trustSource')];
  const endorse = {
    ...(trusted.length > 0 && { arguments: trusted }),
    ...(sources.length > 0 && { sources }),
  };
  const said = {
    ...(typed.get('remember') !== null && { remember: true }),
    ...(Object.keys(endorse).length > 0 && { endorse }),
  };
  const text = typed.get('args');
  if (typeof text !== 'string') return said;
  try {
    const value: unknown = JSON.parse(text);
    if (!isJsonObject(value)) return undefined;
    return { ...said, ...(JSON.stringify(value) !== JSON.stringify(args) && { args: value }) };
  } catch {
    return undefined;
  }
}
