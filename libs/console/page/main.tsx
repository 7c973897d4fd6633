import { createRoot } from 'react-dom/client';
import { App } from './shell/app.js';
import { placeOf } from './shell/place.js';

const root = document.querySelector('#root');
if (root) createRoot(root).render(<App place={placeOf(document)} />);
