import { type SubmitEvent, type ReactNode, useState } from 'react';
import { Icon } from '../parts/icon.js';
import { Problem } from '../parts/states.js';
import type { Words } from '../words/words.js';
import type { Place } from './place.js';
import { type Entry, sendWayIn } from './session.js';

interface SignInProps {
  readonly place: Place;
  readonly words: Words;
  readonly entry: Exclude<Entry, { readonly session: unknown }>;
  readonly onEntered: () => void;
}

/** The way in: a name and a password where the application takes them, otherwise what to do. */
export function SignIn({ place, words: { t }, entry, onEntered }: SignInProps): ReactNode {
  const [problem, setProblem] = useState(entry.problem);
  const [isBusy, setBusy] = useState(false);
  const hasLogin = entry.ways.includes('login');
  const submit = (event: SubmitEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const typed = new FormData(event.currentTarget);
    setBusy(true);
    sendWayIn(place, { name: typed.get('name'), password: typed.get('password') })
      .then((refusal) => (refusal === undefined ? onEntered() : setProblem(refusal)))
      .catch((error: unknown) => setProblem(String(error)))
      .finally(() => setBusy(false));
  };
  return (
    <main className="sign-in">
      <div className="sign-in-card">
        <span className="mark" aria-hidden="true">
          <Icon name="spark" size={26} />
        </span>
        <h1>{place.title}</h1>
        <p className="muted">{t(hasLogin ? 'signIn.lead' : 'signIn.byApplication')}</p>
        {hasLogin && (
          <form onSubmit={submit}>
            <label className="field">
              <span>{t('signIn.name')}</span>
              <input name="name" autoComplete="username" required autoFocus maxLength={256} />
            </label>
            <label className="field">
              <span>{t('signIn.password')}</span>
              <input
                name="password"
                type="password"
                autoComplete="current-password"
                required
                maxLength={1024}
              />
            </label>
            <button type="submit" className="button primary wide" disabled={isBusy}>
              {t('signIn.enter')}
            </button>
          </form>
        )}
        <Problem text={problem} />
      </div>
    </main>
  );
}
