// env: SVC_PAGE_SIZE=50 SVC_CURRENCY=EUR SVC_REGIONS=pt,es SVC_FOOTER=a SVC_BANNER=b SVC_NOTICE=c PAGE_SZIE=1
/** Settings have a value, a default or their own cast. Some are read by handlers only. A misspelt variable lacks the prefix of the framework. */
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
function noticeOf(name: string): string {
  return app.config.get(name, '');
}
app.get('/texts', { response: list(str) }, () => {
  const { SVC_BANNER: banner = '' } = process.env;
  return [app.config.get('footer', ''), banner, noticeOf('notice')];
});
