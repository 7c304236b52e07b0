// env: SVC_PAGE_SIZE=50 SVC_CURRENCY=EUR SVC_REGIONS=pt,es PAGE_SZIE=1
/** Settings have a value, a default or their own cast. A misspelt variable lacks the prefix of the framework. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, list, str } from 'svc';

class Hit extends Schema {
  title = Field(str, { maxLength: 100 });
}

export const app: Svc = new Svc({ title: 'Search', trustProxy: 1, config: { merchantId: 'M-1' } });
app.use(new SecurityHeadersMiddleware());
const pageSize = app.config.get('pageSize', 20);
const currency = app.config.get('currency');
const merchant = app.config.get('merchantId');
const theme = app.config.get('theme', 'light');
const regions = app.config.get('regions', ['pt'], { cast: (text) => text.split(',') });
app.get('/hits', { response: list(Hit) }, () => Array.from({ length: pageSize }, () => ({ title: `${String(currency)} ${String(merchant)} ${theme} ${regions.length}` })));
